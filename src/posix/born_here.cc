#include "posix/born_here.h"

#include <pthread.h>

#include <atomic>

namespace rpcrdma::posix {
namespace {

std::atomic<std::uint32_t> generation{0};

void count_fork() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint32_t process_generation() noexcept {
  static const int is_counted = pthread_atfork(nullptr, nullptr, count_fork);
  (void)is_counted;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace rpcrdma::posix
