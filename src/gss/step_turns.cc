#include "gss/step_turns.h"

#include <utility>

namespace rpcrdma::gss {

void StepTurns::submit(StepQueue& queue, Executor::Work run, Executor::Work finish) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back({std::move(run), std::move(finish), &queue});
    if (is_under_way_) return;
    is_under_way_ = true;
  }
  give(queue);
}

void StepTurns::give(StepQueue& queue) {
  queue.submit([this] { run_first(); });
}

void StepTurns::run_first() {
  Step step;
  {
    const std::lock_guard lock(mutex_);
    step = std::move(steps_.front());
    steps_.pop_front();
  }
  step.run();
  StepQueue* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    is_under_way_ = !steps_.empty();
    if (is_under_way_) next = steps_.front().queue;
  }
  if (next != nullptr) give(*next);
  step.queue->end();
  step.finish();
}

}  // namespace rpcrdma::gss
