// Runs steps of authentication that use a context, one thread at a time.
#ifndef RPCRDMA_GSS_LOCKED_STEP_H_
#define RPCRDMA_GSS_LOCKED_STEP_H_

#include <cstddef>
#include <mutex>
#include <utility>

#include "gss/executor.h"
#include "rpcrdma/auth.h"

namespace rpcrdma::gss {

inline constexpr std::size_t kBytesAtOnce = 16U << 10U;  // protected on a connection's thread

// Calls `run()` with the context's mutex held: at once if the mutex is free and there are few bytes
// to protect, else on the executor, which then ends the step.
template <class Run>
StepEnd run_locked(Executor& executor, std::mutex& mutex, std::size_t bytes, AuthStep& step,
                   Run run) {
  if (bytes <= kBytesAtOnce) {
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (lock) {
      run();
      return StepEnd::kDone;
    }
  }
  executor.submit([&mutex, &step, run = std::move(run)]() mutable {
    {
      const std::lock_guard lock(mutex);
      run();
    }
    step.finish();
  });
  return StepEnd::kPending;
}

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_LOCKED_STEP_H_
