#include "rdma/verbs/fork_guard.h"

#include <infiniband/verbs.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace rpcrdma::rdma::verbs {
namespace {

std::atomic<std::uint32_t> generation{0};

void count_fork() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint32_t process_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

int enter_rdma_core() noexcept {
  static const int result = [] {
    pthread_atfork(nullptr, nullptr, count_fork);
    // Linux 5.12 and later copy registered pages for the child; rdma-core knows.
    return ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ? 0 : ibv_fork_init();
  }();
  static const BornHere first_use;
  return first_use.elsewhere() ? ECHILD : result;
}

}  // namespace rpcrdma::rdma::verbs
