#include "rdma/verbs/fork_guard.h"

#include <infiniband/verbs.h>

#include <cerrno>

namespace rpcrdma::rdma::verbs {

int enter_rdma_core() noexcept {
  static const int result = [] {
    // Linux 5.12 and later copy registered pages for the child; rdma-core knows.
    return ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ? 0 : ibv_fork_init();
  }();
  static const BornHere first_use;
  return first_use.elsewhere() ? ECHILD : result;
}

}  // namespace rpcrdma::rdma::verbs
