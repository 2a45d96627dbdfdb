// Gives few of many steps to an executor at a time.
#ifndef RPCRDMA_GSS_STEP_TURNS_H_
#define RPCRDMA_GSS_STEP_TURNS_H_

#include <cstddef>
#include <deque>
#include <mutex>

#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

// Steps that use one context run one after the other, and those that make contexts may wait for a
// directory of users. If the executor had all of them, its threads would wait for each other, and
// nobody else's step would run. May be used from any thread.
class StepTurns {
 public:
  // The executor has `at_a_time` of them at most; the others wait, in their order.
  explicit StepTurns(std::size_t at_a_time) noexcept : at_a_time_(at_a_time) {}
  StepTurns(const StepTurns&) = delete;
  StepTurns& operator=(const StepTurns&) = delete;

  // Has the executor call `run`, and then `finish`, which may destroy this.
  void submit(Executor& executor, Executor::Work run, Executor::Work finish);

 private:
  struct Step {
    Executor::Work run, finish;
  };
  void give(Executor& executor);
  void run_first(Executor& executor);

  const std::size_t at_a_time_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Step> steps_;     // that have not begun
  std::size_t given_ = 0;      // of them, the executor has so many
  std::size_t under_way_ = 0;  // these, and those that have begun
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_STEP_TURNS_H_
