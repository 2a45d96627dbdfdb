// The base of back ends, which treat all procedures alike: run them on a thread, say.
#ifndef RPCRDMA_NFS_BACK_END_DISPATCH_H_
#define RPCRDMA_NFS_BACK_END_DISPATCH_H_

#include <cstdint>
#include <utility>

#include "nfs/file_system.h"

namespace nfs {

// Passes the request of each procedure to
//   template <class Procedure>
//   void Derived::run(Request<Procedure> request);
template <class Derived, std::uint32_t kLast = kLastProcedure>
class FileSystemOf : public FileSystemOf<Derived, kLast - 1> {
 public:
  using FileSystemOf<Derived, kLast - 1>::start;
  void start(RequestOf<kLast> request) override {
    static_cast<Derived&>(*this).run(std::move(request));
  }
};
template <class Derived>
class FileSystemOf<Derived, 0> : public FileSystem {};

// Calls `run(args..., into)` for a procedure whose results view memory, `run(args...)` for others.
template <class Procedure, class Run>
typename Procedure::Results run_with_memory(const Run& run, rpcrdma::MutableBytes into) {
  if constexpr (requires(const typename Procedure::Args& args) { Procedure::memory_size(args); }) {
    return run(into);
  } else {
    return run();
  }
}

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_DISPATCH_H_
