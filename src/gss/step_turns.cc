#include "gss/step_turns.h"

#include <utility>

namespace rpcrdma::gss {

void StepTurns::submit(Executor& executor, Executor::Work run, Executor::Work finish) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back({std::move(run), std::move(finish)});
    if (under_way_ == at_a_time_) return;
    ++under_way_;
    ++given_;
  }
  give(executor);
}

void StepTurns::give(Executor& executor) {
  executor.submit([this, &executor] { run_first(executor); });
}

void StepTurns::run_first(Executor& executor) {
  Step step;
  {
    const std::lock_guard lock(mutex_);
    step = std::move(steps_.front());
    steps_.pop_front();
    --given_;
  }
  step.run();
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    goes_on = steps_.size() > given_;
    if (goes_on) {
      ++given_;
    } else {
      --under_way_;
    }
  }
  if (goes_on) give(executor);
  step.finish();
}

}  // namespace rpcrdma::gss
