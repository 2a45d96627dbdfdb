#include "rdma/sim/world.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "rdma/sim/pair_for_test.h"

namespace rpcrdma::rdma::sim {
namespace {

using std::chrono::nanoseconds;

TEST(SimWorld, EventsHappenInTheOrderOfTimeThenOfAsking) {
  World world(1);
  std::string order;
  world.after(nanoseconds(20), [&] { order += 'c'; });
  world.after(nanoseconds(10), [&] { order += 'a'; });
  world.after(nanoseconds(10), [&] { order += 'b'; });
  const Instant start = world.now();
  while (world.step()) {
  }
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(world.now() - start, nanoseconds(20));
  EXPECT_EQ(world.events(), 3U);
}

TEST(SimWorld, GranularityMakesBunches) {
  Options options;
  options.granularity = nanoseconds(1000);
  World world(1, options);
  int happened = 0;
  for (int i = 1; i <= 100; ++i) world.after(nanoseconds(i), [&] { ++happened; });
  world.pass_time();
  world.run_due();
  EXPECT_EQ(happened, 100);
}

TEST(SimWorld, WaitPassesTimeToTheNextEventOrTimerAndDisarmsIt) {
  World world(1);
  Provider node(world, "node");
  Provider other(world, "other");
  const Instant start = world.now();
  int happened = 0;
  world.after(nanoseconds(100), [&] { ++happened; });
  other.arm_timer(start + nanoseconds(30));
  node.wait();
  EXPECT_EQ(node.now(), start + nanoseconds(30));
  node.progress();
  EXPECT_EQ(happened, 0);
  node.wait();
  EXPECT_EQ(node.now(), start + nanoseconds(100));
  EXPECT_EQ(happened, 0);
  node.progress();
  EXPECT_EQ(happened, 1);
  node.wait();  // Nothing to wait for: it comes back.
  EXPECT_EQ(node.now(), start + nanoseconds(100));
}

TEST(SimWorld, WakeLetsTheNextWaitComeBackAtOnce) {
  World world(1);
  Provider node(world, "node");
  const Instant start = world.now();
  node.arm_timer(start + nanoseconds(30));
  node.wake();
  node.wait();
  EXPECT_EQ(node.now(), start);
  node.wait();
  EXPECT_EQ(node.now(), start + nanoseconds(30));
}

TEST(SimWorld, TagsNeverRepeatAndDoNotShowTheirCount) {
  World world(3);
  std::set<SteeringTag> tags;
  std::set<std::uint32_t> differences;
  std::uint32_t before = 0;
  for (int i = 0; i < 10'000; ++i) {
    const SteeringTag tag = world.new_tag();
    EXPECT_TRUE(tags.insert(tag).second);
    differences.insert(static_cast<std::uint32_t>(tag) - before);
    before = static_cast<std::uint32_t>(tag);
  }
  EXPECT_GT(differences.size(), 9'900U);
  EXPECT_NE(World(3).new_tag(), World(4).new_tag());
}

TEST(SimWorld, ListenersHaveAddressesOfTheirOwn) {
  World world(1);
  Provider node(world, "node");
  auto first = node.listen("127.0.0.1:20049");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ((*first)->address(), "127.0.0.1:20049");
  EXPECT_EQ(node.listen("127.0.0.1:20049").error().code, Errc::kBadAddress);
  auto any = node.listen("[::1]:0");
  ASSERT_TRUE(any.has_value());
  EXPECT_NE((*any)->address(), "[::1]:0");
  first->reset();
  EXPECT_TRUE(node.listen("127.0.0.1:20049").has_value());
  for (const auto* bad : {"", ":1", "host", "host:", "host:x"}) {
    EXPECT_EQ(node.listen(bad).error().code, Errc::kBadAddress) << bad;
    EXPECT_EQ(node.connect(bad, {}).error().code, Errc::kBadAddress) << bad;
  }
}

// Returns all events of a run, with their times, as text.
std::string story(std::uint64_t seed) {
  SeededRandom random(seed);
  Options options = random_options(random, false);
  options.queue_depth_max = 1024;
  options.shares_receives = false;
  SimPair pair(seed, options);
  std::string out;
  const Remote room = pair.expose(pair.right, 0, 4096, RemoteAccess::kWrite);
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(pair.right.post(i, Receive{}).has_value());
    const Slice slice = pair.left.slice(0, 16);
    EXPECT_TRUE(pair.left.post(i, Write{{&slice, 1}, {room.tag, 16, room.address}}).has_value());
    EXPECT_TRUE(pair.left.post(100 + i, Send{}).has_value());
  }
  while (pair.world.step()) {
    for (End* end : {&pair.left, &pair.right}) {
      while (const auto done = end->poll()) {
        out += std::to_string(done->id) + "@" +
               std::to_string(pair.world.now().time_since_epoch().count()) + " ";
      }
    }
  }
  EXPECT_TRUE(pair.world.violations().empty());
  return out + std::to_string(static_cast<std::uint32_t>(room.tag));
}

TEST(SimWorld, TheSameSeedTellsTheSameStory) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(story(seed), story(seed));
  EXPECT_NE(story(1), story(2));
}

TEST(SimWorldDeathTest, AWorldThatEndsBeforeItsProvidersIsOurBug) {
  auto end_early = [] {
    auto world = std::make_unique<World>(1);
    Provider node(*world, "node");
    world.reset();
  };
  EXPECT_DEATH(end_early(), "a world must end last");
}

}  // namespace
}  // namespace rpcrdma::rdma::sim
