// How much memory of operator new is in use at most while one of these lives, bytes beyond what was
// in use before. The program that links live_memory.cc has its own operator new.
#ifndef RPCRDMA_TESTS_GEN_LIVE_MEMORY_H_
#define RPCRDMA_TESTS_GEN_LIVE_MEMORY_H_

#include <cstddef>

namespace rpcrdma::gen_test {

class LiveMemory {
 public:
  LiveMemory();
  std::size_t peak() const;

 private:
  std::size_t before_;
};

}  // namespace rpcrdma::gen_test

#endif  // RPCRDMA_TESTS_GEN_LIVE_MEMORY_H_
