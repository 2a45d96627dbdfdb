// Tells a process from its children, which have the same objects after fork().
#ifndef RPCRDMA_POSIX_BORN_HERE_H_
#define RPCRDMA_POSIX_BORN_HERE_H_

#include <cstdint>

namespace rpcrdma::posix {

// Returns how many forks lie between this process and the one that loaded the library. The first
// call has to come before them.
std::uint32_t process_generation() noexcept;

// True in each child of the process in which it was made.
class BornHere {
 public:
  bool elsewhere() const noexcept { return born_ != process_generation(); }

 private:
  std::uint32_t born_ = process_generation();
};

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_BORN_HERE_H_
