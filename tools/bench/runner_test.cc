#include "tools/bench/runner.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "tools/bench/meter.h"

namespace rpcrdma::tools::bench {
namespace {

// Every contender, both directions, in every build: what the figures are is of no interest here.
TEST(Runner, RunsEveryContenderInEachRound) {
  std::vector<std::string> unknown;
  Plan plan{.groups = select({"null_qd1", "read_64k_qd8", "write_64k_qd8", "tirpc_null_qd1"},
                             "both", unknown),
            .rounds = 2,
            .seconds = 0.2,  // a call of a sanitizer on a busy machine takes its time
            .layout = {},
            .beside = {}};
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

Plan short_plan() {
  std::vector<std::string> unknown;
  Plan plan;
  plan.groups = select({"null_qd1"}, "off", unknown);
  plan.rounds = 1;
  plan.seconds = 0.2;
  return plan;
}

// One connection among many may converse alone with the server for a while, at a latency that no
// other one sees.
TEST(Meter, TakesTheLatenciesOfAllConnectionsThatMakeTheCase) {
  for (const bool is_the_case : {true, false}) {
    std::vector<std::unique_ptr<Child>> load;
    load.push_back(
        std::make_unique<Child>(std::nullopt, [](const Announce& announce, Tally& tally) {
          announce("ready");
          tally.took(std::chrono::hours(1));  // nobody measures yet
          while (!tally.may_begin) ::poll(nullptr, 0, 1);
          for (int i = 0; i < 1000; ++i) tally.took(std::chrono::milliseconds(50));
          tally.ended(1000);
          for (;;) ::pause();
        }));
    Meter meter({.load = load, .load_is_the_case = is_the_case},
                {Nanoseconds(0), Nanoseconds(0), 0});
    meter.tick();
    ASSERT_TRUE(meter.just_started());
    for (int i = 0; i < 100; ++i) meter.ended(meter.now());
    load[0]->begin();
    while (load[0]->tally().calls < 1000) ASSERT_FALSE(load[0]->has_ended());
    while (!meter.over()) meter.tick();
    EXPECT_EQ(load[0]->tally().measures, false);
    EXPECT_NEAR(meter.sample(0).p50_us, is_the_case ? 50e3 : 0, 1e3);
    EXPECT_EQ(meter.sample(0).load_calls, 1000U);
  }
}

// A case has further connections beside it: some make its calls as well, and some are idle.
TEST(Runner, CountsTheCallsAndLatenciesOfAllConnections) {
  Plan plan = short_plan();
  plan.layout.connections = 3;
  plan.layout.idle = 2;
  plan.layout.threads = 2;
  const auto results = run(plan, [](double) {});
  ASSERT_EQ(results.size(), 2U);  // bare TCP, and ours
  for (const Result& result : results) {
    for (const Sample& sample : result.samples) {
      EXPECT_GT(sample.load_calls, 0U) << result.what.name;
      EXPECT_GT(sample.calls, sample.load_calls) << result.what.name;
      EXPECT_GT(sample.latencies, sample.calls - sample.load_calls) << result.what.name;
    }
  }
  EXPECT_GT(results[1].samples[0].server_rss_kib, 0U);
}

TEST(Runner, MeasuresALoadAloneAndBesideACase) {
  Plan plan = short_plan();
  std::vector<std::string> unknown;
  plan.beside = select({"read_64k_qd8"}, "off", unknown)[0].cases[0];
  const auto results = run(plan, [](double) {});
  const Sample& sample = results.at(1).samples.at(0);
  EXPECT_GT(sample.load_calls, 0U);
  EXPECT_GT(sample.load_alone_calls_per_s, 0);
  EXPECT_GT(sample.load_alone_cpu_per_call, 0);
  EXPECT_GT(sample.alone_cpu_per_call, 0);
  const auto json = to_json(results, {.idle = 0, .connections = 0, .beside = "read_64k_qd8"});
  EXPECT_TRUE(json[0]["beside"].is_null()) << "bare TCP has none";
  EXPECT_EQ(json[1]["beside"]["case"].text(), "\"read_64k_qd8\"");
  EXPECT_GT(std::stod(json[1]["beside"]["alone_cpu_ns_per_call"].text()), 0);
}

}  // namespace
}  // namespace rpcrdma::tools::bench
