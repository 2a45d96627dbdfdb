// Tests the simulator's own behaviour: poison, late visibility, odd orders, and complaints about
// our own side. The tests for every provider are in tests/conformance.
#include "rdma/sim/queue_pair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "rdma/sim/pair_for_test.h"

namespace rpcrdma::rdma::sim {
namespace {

bool all_are(Bytes memory, std::byte value) {
  return std::ranges::all_of(memory, [value](std::byte b) { return b == value; });
}

TEST(SimQueuePair, ReceiveMemoryIsPoisonUntilTheMessageIsThere) {
  SimPair pair;
  const Slice into = pair.right.slice(100, 50);
  ASSERT_TRUE(pair.right.post(1, Receive{{&into, 1}}).has_value());
  EXPECT_TRUE(all_are(pair.right.at(100, 50), kPoison));
  EXPECT_EQ(pair.right.memory[99], std::byte{0});
  EXPECT_EQ(pair.right.memory[150], std::byte{0});
  std::ranges::fill(pair.left.at(0, 10), std::byte{0x11});
  const Slice from = pair.left.slice(0, 10);
  ASSERT_TRUE(pair.left.post(2, Send{{&from, 1}, {}}).has_value());
  EXPECT_EQ(pair.next(pair.right).size, 10U);
  EXPECT_TRUE(all_are(pair.right.at(100, 10), std::byte{0x11}));
  EXPECT_TRUE(all_are(pair.right.at(110, 40), kPoison));
}

TEST(SimQueuePair, SharedReceivesGiveMessagesInMemoryThatIsPoisonWhenItIsGivenBack) {
  Options options;
  options.shares_receives = true;
  SimPair pair(1, options);
  EXPECT_TRUE(pair.right.queue_pair->capabilities().shares_receives);
  const std::array<std::uint16_t, 2> numbers{3, 4};
  ASSERT_TRUE(pair.right.queue_pair->post_receives({{}, 64, 0}, numbers).has_value());
  std::ranges::fill(pair.left.at(0, 10), std::byte{0x11});
  const Slice from = pair.left.slice(0, 10);
  ASSERT_TRUE(pair.left.post(2, Send{{&from, 1}, {}}).has_value());
  const Completion received = pair.next(pair.right);
  EXPECT_EQ(received.id, 3U);
  EXPECT_TRUE(all_are({received.message, received.size}, std::byte{0x11}));
  ASSERT_TRUE(
      pair.right.queue_pair->post_receives({{}, 64, 0}, std::span(numbers).first(1)).has_value());
  EXPECT_TRUE(all_are({received.message, received.size}, kPoison));
  EXPECT_FALSE(pair.right.post(1, Receive{}).has_value()) << "one of its own";
  pair.left.queue_pair->disconnect();
  pair.run_dry();
  EXPECT_EQ(pair.next(pair.right).id, 4U);
  const Completion last = pair.next(pair.right);
  EXPECT_EQ(last.id, 3U);
  EXPECT_EQ(last.status, Status::kFlushed);
}

TEST(SimQueuePair, ReadSinkIsPoisonUntilItsCompletion) {
  SimPair pair;
  std::ranges::fill(pair.right.at(0, 64), std::byte{0x22});
  const Remote source = pair.expose(pair.right, 0, 64, RemoteAccess::kRead);
  ASSERT_TRUE(pair.left.post(1, Read{pair.left.slice(0, 64), source}).has_value());
  std::optional<Completion> done;
  while (!(done = pair.left.poll())) {
    ASSERT_TRUE(all_are(pair.left.at(0, 64), kPoison));
    ASSERT_TRUE(pair.world.step());
  }
  EXPECT_TRUE(all_are(pair.left.at(0, 64), std::byte{0x22}));
}

TEST(SimQueuePair, WriteOftenStaysInvisibleUntilTheSendThatOrdersIt) {
  int late = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimPair pair(seed);
    const Remote room = pair.expose(pair.right, 0, 32, RemoteAccess::kWrite);
    EXPECT_TRUE(all_are(pair.right.at(0, 32), kPoison));
    std::ranges::fill(pair.left.at(0, 32), std::byte{0x33});
    const Slice from = pair.left.slice(0, 32);
    ASSERT_TRUE(pair.right.post(1, Receive{}).has_value());
    ASSERT_TRUE(pair.left.post(2, Write{{&from, 1}, room}).has_value());
    EXPECT_EQ(pair.next(pair.left).status, Status::kOk);
    pair.run_dry();
    if (all_are(pair.right.at(0, 32), kPoison)) ++late;
    ASSERT_TRUE(pair.left.post(3, Send{}).has_value());
    EXPECT_EQ(pair.next(pair.right).status, Status::kOk);
    EXPECT_TRUE(all_are(pair.right.at(0, 32), std::byte{0x33}));
  }
  EXPECT_GT(late, 5);
  EXPECT_LT(late, 20);
}

TEST(SimQueuePair, RevokeShowsTheWritesThatWereAcceptedBefore) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SimPair pair(seed);
    const Remote room = pair.expose(pair.right, 0, 32, RemoteAccess::kWrite);
    std::ranges::fill(pair.left.at(0, 32), std::byte{0x33});
    const Slice from = pair.left.slice(0, 32);
    ASSERT_TRUE(pair.left.post(2, Write{{&from, 1}, room}).has_value());
    EXPECT_EQ(pair.next(pair.left).status, Status::kOk);
    ASSERT_TRUE(pair.right.post(3, Revoke{room.tag}).has_value());
    EXPECT_EQ(pair.next(pair.right).id, 3U);
    EXPECT_TRUE(all_are(pair.right.at(0, 32), std::byte{0x33}));
  }
}

TEST(SimQueuePair, MemoryChangedBeforeTheCompletionOftenShows) {
  int showed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimPair pair(seed);
    const Slice into = pair.right.slice(0, 8);
    const Slice from = pair.left.slice(0, 8);
    ASSERT_TRUE(pair.right.post(1, Receive{{&into, 1}}).has_value());
    ASSERT_TRUE(pair.left.post(2, Send{{&from, 1}, {}}).has_value());
    std::ranges::fill(pair.left.at(0, 8), std::byte{0x44});
    pair.next(pair.right);
    if (all_are(pair.right.at(0, 8), std::byte{0x44})) ++showed;
  }
  EXPECT_EQ(showed, 20);
}

TEST(SimQueuePair, AnswerMayBeReceivedBeforeItsQuestionHasCompleted) {
  int early = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Options options;
    options.completion_delay_max = std::chrono::milliseconds(1);
    SimPair pair(seed, options);
    ASSERT_TRUE(pair.right.post(1, Receive{}).has_value());
    ASSERT_TRUE(pair.left.post(2, Receive{}).has_value());
    ASSERT_TRUE(pair.left.post(3, Send{}).has_value());
    EXPECT_EQ(pair.next(pair.right).id, 1U);
    ASSERT_TRUE(pair.right.post(4, Send{}).has_value());
    const std::uint64_t first = pair.next(pair.left).id;
    const std::uint64_t second = pair.next(pair.left).id;
    EXPECT_EQ(first + second, 5U);
    if (first == 2) ++early;
  }
  EXPECT_GT(early, 10);
}

TEST(SimQueuePair, SendMayCompleteBeforeItHasArrivedWhenTheOptionSaysSo) {
  for (const bool before : {false, true}) {
    Options options;
    options.completes_before_arrival = before;
    int early = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      SimPair pair(seed, options);
      ASSERT_TRUE(pair.right.post(1, Receive{}).has_value());
      ASSERT_TRUE(pair.left.post(2, Send{}).has_value());
      pair.next(pair.left);
      if (!pair.right.poll()) ++early;
    }
    EXPECT_EQ(early > 0, before);
  }
}

TEST(SimQueuePair, SendWithoutAReceiveKillsBothSidesAndIsCounted) {
  SimPair pair;
  ASSERT_TRUE(pair.left.post(1, Send{}).has_value());
  EXPECT_EQ(pair.next(pair.left).status, Status::kRetryExceeded);
  EXPECT_EQ(pair.left.queue_pair->poll_link(), LinkEvent::kDisconnected);
  EXPECT_EQ(pair.right.queue_pair->poll_link(), LinkEvent::kDisconnected);
  EXPECT_EQ(pair.right.queue_pair->cause().code, Errc::kProtocol);
  ASSERT_EQ(pair.world.violations().size(), 1U);
  EXPECT_EQ(pair.world.violations()[0], "Send to a peer without a posted Receive");
}

TEST(SimQueuePair, ReceiveTooSmallIsALocalErrorAndIsCounted) {
  SimPair pair;
  const Slice into = pair.right.slice(0, 7);
  const Slice from = pair.left.slice(0, 8);
  ASSERT_TRUE(pair.right.post(1, Receive{{&into, 1}}).has_value());
  ASSERT_TRUE(pair.left.post(2, Send{{&from, 1}, {}}).has_value());
  EXPECT_EQ(pair.next(pair.right).status, Status::kLocalError);
  EXPECT_NE(pair.next(pair.left).status, Status::kOk);
  EXPECT_EQ(pair.world.violations().size(), 1U);
}

TEST(SimQueuePair, BadPostsAreRefusedAndCountedAndTakeNothing) {
  SimPair pair;
  const Slice outside = pair.left.slice(65530, 7);
  const Slice unknown{RegionId{77}, 1, 0};
  const Slice good = pair.left.slice(0, 4);
  std::vector<decltype(work::Request::work)> bad{
      Receive{{&outside, 1}},
      Send{{&unknown, 1}, {}},
      Read{pair.left.slice(0, 4), Remote{SteeringTag{1}, 5, 0}},
      Read{outside, Remote{SteeringTag{1}, 7, 0}},
      Write{{&good, 1}, Remote{SteeringTag{1}, 5, 0}},
      Expose{outside, RemoteAccess::kRead},
      Revoke{SteeringTag{1}},
  };
  for (const auto& work : bad) {
    std::array<work::Request, 2> batch{work::Request{1, true, Receive{}},
                                       work::Request{2, true, work}};
    EXPECT_EQ(pair.left.queue_pair->post(batch).error().code, Errc::kUnsupported);
  }
  EXPECT_EQ(pair.world.violations().size(), bad.size());
  pair.left.queue_pair->disconnect();
  pair.run_dry();
  EXPECT_FALSE(pair.left.poll().has_value()) << "a refused batch was taken in part";
}

TEST(SimQueuePair, ReadOnlyMemoryCannotBeReceivedIntoOrExposedForWriting) {
  SimPair pair;
  const std::array<std::byte, 8> constant{};
  const RegionId region = pair.left.queue_pair->attach_read_only(constant).value();
  const Slice slice{region, 8, 0};
  EXPECT_FALSE(pair.left.post(1, Receive{{&slice, 1}}).has_value());
  EXPECT_FALSE(pair.left.post(2, Expose{slice, RemoteAccess::kWrite}).has_value());
  EXPECT_TRUE(pair.left.post(3, Expose{slice, RemoteAccess::kRead}).has_value());
}

TEST(SimQueuePair, InvalidationIsRefusedWhereItIsNotSupported) {
  Options options;
  options.remote_invalidation = false;
  SimPair pair(1, options);
  EXPECT_FALSE(pair.left.queue_pair->capabilities().send_with_invalidate);
  EXPECT_FALSE(pair.left.queue_pair->capabilities().reports_invalidated_handle);
  EXPECT_EQ(pair.left.post(1, Send{{}, SteeringTag{1}}).error().code, Errc::kUnsupported);
}

TEST(SimQueuePair, RevokeOfATagThatThePeerHasInvalidatedSucceeds) {
  SimPair pair;
  const Remote room = pair.expose(pair.right, 0, 8, RemoteAccess::kWrite);
  ASSERT_TRUE(pair.right.post(1, Receive{}).has_value());
  ASSERT_TRUE(pair.left.post(2, Send{{}, room.tag}).has_value());
  EXPECT_EQ(pair.next(pair.right).tag, room.tag);
  ASSERT_TRUE(pair.right.post(3, Revoke{room.tag}).has_value());
  EXPECT_EQ(pair.next(pair.right).status, Status::kOk);
}

TEST(SimQueuePair, ReadOfATagThatDiesOnTheWayIsARemoteAccessError) {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SimPair pair(seed);
    const Remote source = pair.expose(pair.right, 0, 8, RemoteAccess::kRead);
    ASSERT_TRUE(pair.left.post(1, Read{pair.left.slice(0, 8), source}).has_value());
    ASSERT_TRUE(pair.right.post(2, Revoke{source.tag}).has_value());
    const Status status = pair.next(pair.left).status;
    EXPECT_TRUE(status == Status::kOk || status == Status::kRemoteAccess);
    if (status == Status::kRemoteAccess) ++refused;
  }
  EXPECT_GT(refused, 5);
}

TEST(SimQueuePair, FailedWriteIsReportedWhenCompletionsMeanArrival) {
  SimPair pair;
  const Slice from = pair.left.slice(0, 8);
  ASSERT_TRUE(pair.left.post(1, Write{{&from, 1}, {SteeringTag{1}, 8, 0}}).has_value());
  EXPECT_EQ(pair.next(pair.left).status, Status::kRemoteAccess);
  EXPECT_EQ(pair.left.queue_pair->poll_link(), LinkEvent::kDisconnected);
  EXPECT_TRUE(pair.world.violations().empty()) << "this is how a hostile peer behaves";
}

TEST(SimQueuePair, DestroyingAQueuePairWithLentMemoryIsFineAndThePeerSeesIt) {
  SimPair pair;
  const Slice all = pair.right.slice(0, 65536);
  ASSERT_TRUE(pair.right.post(1, Receive{{&all, 1}}).has_value());
  pair.expose(pair.right, 0, 100, RemoteAccess::kWrite);
  pair.right.queue_pair.reset();
  ASSERT_TRUE(pair.step_until([&] { return pair.left.queue_pair->poll_link().has_value(); }));
  EXPECT_EQ(pair.left.queue_pair->cause().code, Errc::kClosed);
}

TEST(SimQueuePair, CountersTellWhatWasMoved) {
  SimPair pair;
  const Slice from = pair.left.slice(0, 100);
  const Slice into = pair.right.slice(0, 100);
  ASSERT_TRUE(pair.right.post(1, Receive{{&into, 1}}).has_value());
  ASSERT_TRUE(pair.left.post(2, Send{{&from, 1}, {}}).has_value());
  pair.next(pair.right);
  EXPECT_EQ(pair.left.queue_pair->counters().payload_sent, 100U);
  EXPECT_EQ(pair.left.queue_pair->counters().sends, 1U);
  EXPECT_EQ(pair.right.queue_pair->counters().payload_received, 100U);
}

TEST(SimQueuePairDeathTest, DetachingMemoryOfPostedWorkIsOurBug) {
  SimPair pair;
  const Slice into = pair.right.slice(0, 8);
  ASSERT_TRUE(pair.right.post(1, Receive{{&into, 1}}).has_value());
  EXPECT_DEATH(pair.right.queue_pair->detach(pair.right.region), "posted work refers to");
}

}  // namespace
}  // namespace rpcrdma::rdma::sim
