// Gives the steps that use one context to an executor one at a time.
#ifndef RPCRDMA_GSS_STEP_TURNS_H_
#define RPCRDMA_GSS_STEP_TURNS_H_

#include <deque>
#include <mutex>
#include <utility>

#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

// Where a step waits for an executor.
class StepQueue {
 public:
  virtual void submit(Executor::Work work) = 0;
  // The step has run. Called once for each submit(), on any thread, before anything that may
  // destroy the queue.
  virtual void end() = 0;

 protected:
  ~StepQueue() = default;
};

// Has an executor, which outlives this, run all that comes.
class DirectQueue final : public StepQueue {
 public:
  explicit DirectQueue(Executor& executor) noexcept : executor_(executor) {}
  void submit(Executor::Work work) override { executor_.submit(std::move(work)); }
  void end() override {}

 private:
  Executor& executor_;
};

// If the executor had all steps of a context, its threads would wait for each other, and nobody
// else's step would run. May be used from any thread.
class StepTurns {
 public:
  StepTurns() = default;
  StepTurns(const StepTurns&) = delete;
  StepTurns& operator=(const StepTurns&) = delete;

  // Submits to the queue, when the steps before it have run, a call of `run`, and then of `finish`,
  // which may destroy this and the queue. Until then the queue must exist.
  void submit(StepQueue& queue, Executor::Work run, Executor::Work finish);

 private:
  struct Step {
    Executor::Work run, finish;
    StepQueue* queue = nullptr;
  };
  void give(StepQueue& queue);
  void run_first();

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Step> steps_;     // that have not begun
  bool is_under_way_ = false;  // a step runs, or the first one is in its queue
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_STEP_TURNS_H_
