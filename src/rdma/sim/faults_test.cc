#include <gtest/gtest.h>

#include "rdma/sim/pair_for_test.h"

namespace rpcrdma::rdma::sim {
namespace {

TEST(SimFaults, EveryConnectionCanBeRefused) {
  Options options;
  options.refuse_one_in = 1;
  World world(1, options);
  Provider node(world, "node");
  const auto listener = node.listen("127.0.0.1:0").value();
  const auto queue_pair = node.connect(listener->address(), {}).value();
  while (world.step()) {
  }
  EXPECT_EQ(queue_pair->poll_link(), LinkEvent::kRefused);
  EXPECT_EQ(queue_pair->cause().code, Errc::kRefused);
  EXPECT_EQ(listener->poll_incoming(), nullptr);
}

TEST(SimFaults, ARequestThatNobodyAnswersTimesOut) {
  World world(1);
  Provider node(world, "node");
  const auto listener = node.listen("127.0.0.1:0").value();
  const auto queue_pair = node.connect(listener->address(), {}).value();
  const Instant start = world.now();
  while (world.step()) {
  }
  EXPECT_EQ(queue_pair->poll_link(), LinkEvent::kRefused);
  EXPECT_EQ(queue_pair->cause().code, Errc::kTimedOut);
  EXPECT_EQ(world.now() - start, Options{}.setup_timeout);
}

TEST(SimFaults, AttachAndExposeCanFail) {
  SimPair pair;
  Options options;
  options.attach_fails_one_in = 2;
  World world(1, options);
  Provider node(world, "node");
  const auto queue_pair = node.connect("127.0.0.1:1", {}).value();
  std::array<std::byte, 8> memory{};
  int failed = 0;
  for (int i = 0; i < 100; ++i) failed += queue_pair->attach(memory).has_value() ? 0 : 1;
  EXPECT_GT(failed, 20);
  EXPECT_LT(failed, 80);
}

TEST(SimFaults, ExposeCanFailWithoutATagAndTheConnectionLives) {
  Options options;
  options.expose_fails_one_in = 1;
  SimPair pair(1, options);
  ASSERT_TRUE(pair.left.post(1, Expose{pair.left.slice(0, 8), RemoteAccess::kRead}).has_value());
  const Completion failed = pair.next(pair.left);
  EXPECT_EQ(failed.status, Status::kLocalError);
  EXPECT_EQ(failed.tag, std::nullopt);
  EXPECT_EQ(pair.left.queue_pair->poll_link(), std::nullopt);
  pair.world.stop_faults();
  pair.expose(pair.left, 0, 8, RemoteAccess::kRead);
}

TEST(SimFaults, ABrokenConnectionFlushesOnBothSidesAndLeavesNothingToDo) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Options options;
    options.disconnect_every = 10;
    SimPair pair(seed, options);
    std::size_t posted = 0;
    for (std::uint64_t i = 0; i < 10; ++i) {
      posted += pair.left.post(i, Receive{}).has_value() ? 1U : 0U;
      posted += pair.right.post(i, Receive{}).has_value() ? 1U : 0U;
      posted += pair.left.post(100 + i, Send{}).has_value() ? 1U : 0U;
    }
    pair.run_dry();
    std::size_t completed = 0;
    for (End* end : {&pair.left, &pair.right}) {
      while (end->poll()) ++completed;
      EXPECT_EQ(end->queue_pair->poll_link(), LinkEvent::kDisconnected);
      EXPECT_EQ(end->queue_pair->poll_link(), std::nullopt);
    }
    EXPECT_EQ(completed, posted);
    EXPECT_TRUE(pair.world.violations().empty());
  }
}

TEST(SimFaults, SwarmsDifferAndFaultsAreOptional) {
  int with_faults = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SeededRandom random(seed);
    const Options peaceful = random_options(random, false);
    EXPECT_EQ(peaceful.refuse_one_in + peaceful.attach_fails_one_in + peaceful.expose_fails_one_in +
                  peaceful.disconnect_every,
              0U);
    EXPECT_GE(peaceful.reads_in_flight_max, 1U);
    if (random_options(random, true).disconnect_every != 0) ++with_faults;
  }
  EXPECT_GT(with_faults, 10);
  EXPECT_LT(with_faults, 40);
}

}  // namespace
}  // namespace rpcrdma::rdma::sim
