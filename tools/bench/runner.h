// Runs groups of cases in interleaved rounds.
#ifndef RPCRDMA_TOOLS_BENCH_RUNNER_H_
#define RPCRDMA_TOOLS_BENCH_RUNNER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tools/bench/report.h"

namespace rpcrdma::tools::bench {

struct Plan {
  std::vector<Group> groups;
  int rounds = 7;
  double seconds = 1;  // of measuring for each case, all rounds together
  Layout layout;
  std::optional<Case> beside;  // the load that the cases are measured beside; of rpcrdma
};

// Each round measures every case once. Within a group raw TCP comes first and last, and the others
// start with another one in each round, so that disturbances of the machine hit all alike. Calls
// `progress` with the part that is done, 0 … 1. Throws std::runtime_error.
std::vector<Result> run(const Plan& plan, const std::function<void(double)>& progress);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_RUNNER_H_
