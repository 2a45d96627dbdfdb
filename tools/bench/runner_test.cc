#include "tools/bench/runner.h"

#include <gtest/gtest.h>

namespace rpcrdma::tools::bench {
namespace {

// Every contender, both directions, in every build: what the figures are is of no interest here.
TEST(Runner, RunsEveryContenderInEachRound) {
  std::vector<std::string> unknown;
  Plan plan{.groups = select({"null_qd1", "read_64k_qd8", "write_64k_qd8", "tirpc_null_qd1"},
                             "both", unknown),
            .rounds = 2,
            .seconds = 0.004,
            .layout = {}};
  double done = 0;
  const auto results = run(plan, [&](double part) { done = part; });
  EXPECT_EQ(done, 1);
  ASSERT_EQ(results.size(), have_tirpc() ? 9U : 8U);
  for (const Result& result : results) {
    const bool is_raw = result.what.who == Who::kRaw;
    ASSERT_EQ(result.samples.size(), is_raw ? 4U : 2U) << result.what.name;
    for (const Sample& sample : result.samples) EXPECT_GT(sample.calls, 0U) << result.what.name;
  }
}

}  // namespace
}  // namespace rpcrdma::tools::bench
