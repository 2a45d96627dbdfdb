// Runs steps of authentication that use a context, one thread at a time.
#ifndef RPCRDMA_GSS_LOCKED_STEP_H_
#define RPCRDMA_GSS_LOCKED_STEP_H_

#include <cstddef>
#include <mutex>
#include <utility>

#include "gss/step_turns.h"
#include "rpcrdma/auth.h"

namespace rpcrdma::gss {

inline constexpr std::size_t kBytesAtOnce = 16U << 10U;  // protected on a connection's thread

// Calls `run()` with the mutex of the context that `of` is held: at once if the mutex is free and
// there are few bytes to protect, else as a step of the queue, which has one of the context's steps
// at a time. That ends the step of authentication.
template <class OfContext, class Run>
StepEnd run_locked(StepQueue& queue, OfContext& of, std::size_t bytes, AuthStep& step, Run run) {
  if (bytes <= kBytesAtOnce) {
    const std::unique_lock lock(of.mutex, std::try_to_lock);
    if (lock) {
      run();
      return StepEnd::kDone;
    }
  }
  of.turns.submit(
      queue,
      [&of, run = std::move(run)]() mutable {
        const std::lock_guard lock(of.mutex);
        run();
      },
      [&step] { step.finish(); });
  return StepEnd::kPending;
}

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_LOCKED_STEP_H_
