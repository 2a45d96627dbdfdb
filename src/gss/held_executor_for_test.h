// An executor that runs its work when a test says so.
#ifndef RPCRDMA_GSS_HELD_EXECUTOR_FOR_TEST_H_
#define RPCRDMA_GSS_HELD_EXECUTOR_FOR_TEST_H_

#include <deque>
#include <utility>

#include "gss/executor.h"

namespace rpcrdma::gss {

class HeldExecutor final : public Executor {
 public:
  void submit(Work work) override { works.push_back(std::move(work)); }
  // Precondition: there is work.
  void run_first() {
    Work work = std::move(works.front());
    works.pop_front();
    work();
  }
  std::deque<Work> works;
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_HELD_EXECUTOR_FOR_TEST_H_
