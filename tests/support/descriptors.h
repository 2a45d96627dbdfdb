// A system that runs out of descriptors for connections.
//
// A limit of the process would do as well, but for the sanitizer of virtual calls, which needs
// descriptors of its own now and then.
#ifndef RPCRDMA_TESTS_SUPPORT_DESCRIPTORS_H_
#define RPCRDMA_TESTS_SUPPORT_DESCRIPTORS_H_

#include <atomic>
#include <vector>

namespace rpcrdma::test {

// So many connections can be accepted before accept4() fails with EMFILE, in a program that names
// this variable. It then stands before the C library's.
inline constexpr int kManyDescriptors = 1'000'000;
extern std::atomic<int> descriptors_left;

// Returns the descriptors of this process at which it listens.
std::vector<int> listening_descriptors();

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_DESCRIPTORS_H_
