// Keeps a child process from touching what belongs to its parent.
//
// After fork() both processes have the same objects of rdma-core, and the same descriptors behind
// them: a child that destroyed its copy of a queue pair would destroy the parent's. So objects
// remember in which process they were made, and in any other one they neither work nor are
// destroyed; the child's copies go when it ends or calls exec(). Memory stays the parent's by
// ibv_fork_init().
#ifndef RPCRDMA_RDMA_VERBS_FORK_GUARD_H_
#define RPCRDMA_RDMA_VERBS_FORK_GUARD_H_

#include <memory>

#include "posix/born_here.h"

namespace rpcrdma::rdma::verbs {

using posix::BornHere;

// Must be called before each use of rdma-core. Returns 0; ECHILD in a child of a process that has
// used rdma-core, which shares too much with its parent to use it as well; or the errno of
// rdma-core for a process in which registered memory cannot survive fork().
int enter_rdma_core() noexcept;

// A deleter for std::unique_ptr: calls `kDestroy`, unless in a child.
template <auto kDestroy>
struct DestroyWhereMade {
  template <class T>
  void operator()(T* object) const noexcept {
    if (!born.elsewhere()) (void)kDestroy(object);
  }
  BornHere born;
};
template <class T, auto kDestroy>
using Owned = std::unique_ptr<T, DestroyWhereMade<kDestroy>>;

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_FORK_GUARD_H_
