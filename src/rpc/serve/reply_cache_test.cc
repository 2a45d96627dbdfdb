#include "rpc/serve/reply_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "rpc/serve/duplicate_calls.h"

namespace rpcrdma::rpc {
namespace {

using Found = ReplyCache::Found;

ReplyCache::Key key(std::uint32_t xid) {
  return {"10.0.0.1", {1, 2, 3}, Xid{xid}, 4, 5};
}
ReplyCache::Reply reply(std::size_t size) {
  return {std::vector<std::byte>(size), {}};
}

TEST(ReplyCache, RemembersAReplyUntilItIsPushedOut) {
  ReplyCache cache(3, 1U << 20U);
  for (std::uint32_t xid = 1; xid <= 4; ++xid) {
    EXPECT_EQ(cache.begin(key(xid)).found, Found::kNew);
    EXPECT_EQ(cache.begin(key(xid)).found, Found::kInProgress);
    cache.finish(key(xid), reply(xid));
    EXPECT_EQ(cache.begin(key(xid)).found, Found::kDone);
    EXPECT_EQ(cache.begin(key(xid)).reply.stream.size(), xid);
  }
  EXPECT_EQ(cache.finished(), 3U);
  EXPECT_EQ(cache.begin(key(1)).found, Found::kNew) << "the oldest had to go";
  EXPECT_EQ(cache.begin(key(2)).found, Found::kDone);
}

ReplyCache::Key key_of(const char* host, std::uint32_t xid) {
  ReplyCache::Key made = key(xid);
  made.host = host;
  return made;
}

TEST(ReplyCache, KeepsTheReplyOfAHostHoweverManyAnotherHas) {
  ReplyCache cache(10, 1U << 20U);
  const auto make = [&cache](const char* host, std::uint32_t xid) {
    cache.begin(key_of(host, xid));
    cache.finish(key_of(host, xid), reply(8));
  };
  for (const char* const host : {"10.0.0.2", "10.0.0.3"}) make(host, 1);
  for (std::uint32_t xid = 1; xid <= 1000; ++xid) make("10.0.0.1", xid);
  EXPECT_EQ(cache.finished(), 10U);
  for (const char* const host : {"10.0.0.2", "10.0.0.3"}) {
    EXPECT_EQ(cache.begin(key_of(host, 1)).found, Found::kDone);
  }
  EXPECT_EQ(cache.begin(key_of("10.0.0.1", 993)).found, Found::kDone);
  // A host that comes later gets its share.
  for (std::uint32_t xid = 1; xid <= 100; ++xid) make("10.0.0.4", xid);
  EXPECT_EQ(cache.finished(), 10U);
  for (const char* const host : {"10.0.0.1", "10.0.0.4"}) {
    const std::uint32_t last = host == std::string("10.0.0.1") ? 1000 : 100;
    for (std::uint32_t xid = last - 3; xid <= last; ++xid) {
      EXPECT_EQ(cache.begin(key_of(host, xid)).found, Found::kDone) << host << " " << xid;
    }
  }
}

TEST(ReplyCache, KeepsTheReplyOfAHostHoweverLongThoseOfAnotherAre) {
  ReplyCache cache(1000, 10'000);
  cache.begin(key_of("10.0.0.2", 1));
  cache.finish(key_of("10.0.0.2", 1), reply(8));
  for (std::uint32_t xid = 1; xid <= 100; ++xid) {
    cache.begin(key(xid));
    cache.finish(key(xid), reply(2000));
  }
  EXPECT_EQ(cache.begin(key_of("10.0.0.2", 1)).found, Found::kDone);
  EXPECT_EQ(cache.begin(key(100)).found, Found::kDone);
  EXPECT_LE(cache.bytes(), 10'000U);
}

// As many hosts as there is room for replies, and more, each with one.
TEST(ReplyCache, TakesAReplyOfAFurtherHost) {
  ReplyCache cache(4, 1U << 20U);
  for (std::uint32_t host = 1; host <= 20; ++host) {
    const std::string name = "10.0.1." + std::to_string(host);
    cache.begin(key_of(name.c_str(), 1));
    cache.finish(key_of(name.c_str(), 1), reply(8));
    EXPECT_EQ(cache.begin(key_of(name.c_str(), 1)).found, Found::kDone);
  }
  EXPECT_EQ(cache.finished(), 4U);
}

// Those that wait are looked up again at each end that counts.
TEST(ReplyCache, CountsTheEndsOfCallsThatOthersWaitForAlone) {
  ReplyCache cache(100, 1U << 20U);
  int woken = 0;
  cache.wake_by([&woken] { ++woken; });
  for (std::uint32_t xid = 1; xid <= 4; ++xid) cache.begin(key(xid));
  cache.finish(key(1), reply(8));
  cache.forget(key(2));
  EXPECT_EQ(cache.ends(), 0U);
  EXPECT_EQ(cache.begin(key(3)).found, Found::kInProgress);
  cache.finish(key(3), reply(8));
  EXPECT_EQ(cache.ends(), 1U);
  EXPECT_EQ(cache.begin(key(4)).found, Found::kInProgress);
  cache.forget(key(4));
  EXPECT_EQ(cache.ends(), 2U);
  EXPECT_EQ(woken, 2);
}

TEST(ReplyCache, SaysOfACallInProgressThatItMayHaveEndedWhenItHas) {
  ReplyCache cache(10, 10'000);
  cache.begin(key(1));
  cache.begin(key(2));
  const ReplyCache::Watch first = cache.begin(key(1)).watch, second = cache.begin(key(2)).watch;
  EXPECT_FALSE(first.may_have_ended());
  cache.finish(key(1), {});
  EXPECT_TRUE(first.may_have_ended());
  EXPECT_FALSE(second.may_have_ended()) << "another call has ended";
  cache.forget(key(2));
  EXPECT_TRUE(second.may_have_ended());
}

TEST(ReplyCache, EachPartOfTheKeyTellsRequestsApart) {
  ReplyCache cache(100, 1U << 20U);
  auto other = key(1);
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  cache.finish(other, reply(1));
  EXPECT_EQ(cache.begin(other = key(2)).found, Found::kNew);
  (other = key(1)).host = "10.0.0.2";
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  (other = key(1)).procedure.program = 9;
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  (other = key(1)).procedure.version = 9;
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  (other = key(1)).procedure.number = 9;
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  (other = key(1)).credential = 9;
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  (other = key(1)).arguments = 9;
  EXPECT_EQ(cache.begin(other).found, Found::kNew);
  EXPECT_EQ(cache.begin(key(1)).found, Found::kDone);
}

TEST(ReplyCache, BytesAreBoundedAndCountBulkItems) {
  ReplyCache cache(1000, 10'000);
  for (std::uint32_t xid = 1; xid <= 100; ++xid) {
    ASSERT_EQ(cache.begin(key(xid)).found, Found::kNew);
    ReplyCache::Reply value = reply(100);
    value.items.push_back({28, std::vector<std::byte>(900)});
    cache.finish(key(xid), std::move(value));
    EXPECT_LE(cache.bytes(), 10'000U);
  }
  EXPECT_GE(cache.finished(), 5U);
  EXPECT_EQ(cache.begin(key(100)).found, Found::kDone);
}

TEST(ReplyCache, BytesCountTheStreamOfAReply) {
  ReplyCache cache(1000, 10'000);
  for (std::uint32_t xid = 1; xid <= 3; ++xid) {
    ASSERT_EQ(cache.begin(key(xid)).found, Found::kNew);
    cache.finish(key(xid), reply(xid * 100));
  }
  EXPECT_EQ(cache.finished(), 3U);
  EXPECT_GE(cache.bytes(), 600U);
}

TEST(ReplyCache, TooLargeAReplyIsForgottenAndPushesNothingOut) {
  ReplyCache cache(1000, 10'000);
  ASSERT_EQ(cache.begin(key(1)).found, Found::kNew);
  cache.finish(key(1), reply(100));
  ASSERT_EQ(cache.begin(key(2)).found, Found::kNew);
  cache.finish(key(2), reply(5000));
  EXPECT_EQ(cache.begin(key(2)).found, Found::kNew);
  EXPECT_EQ(cache.begin(key(1)).found, Found::kDone);
}

TEST(ReplyCache, TakesACallThatItHasForgottenForANewOne) {
  ReplyCache cache(10, 10'000);
  ASSERT_EQ(cache.begin(key(1)).found, Found::kNew);
  cache.forget(key(1));
  EXPECT_EQ(cache.begin(key(1)).found, Found::kNew);
}

TEST(ReplyCache, ChecksumsDifferByEachByteSizeAndSeed) {
  std::set<std::uint64_t> seen;
  std::vector<std::byte> bytes(40);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_TRUE(seen.insert(ReplyCache::checksum(Bytes(bytes).first(size), 0)).second);
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      bytes[at] ^= std::byte{1} << bit;
      EXPECT_TRUE(seen.insert(ReplyCache::checksum(bytes, 0)).second) << at;
      bytes[at] ^= std::byte{1} << bit;
    }
  }
  EXPECT_TRUE(seen.insert(ReplyCache::checksum(bytes, 1)).second);
  EXPECT_FALSE(seen.insert(ReplyCache::checksum(bytes, 0)).second);
}

// A client may have other inline thresholds on its next connection, or go on over TCP.
TEST(SumOfArguments, IsTheSameWhetherItemsComeInTheMessageOrByChunks) {
  constexpr std::uint64_t kPosition = 44;  // of the arguments, behind the header
  std::vector<std::byte> whole(60);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::byte(i + 1);
  // Items of 5 and of 12 bytes, at 12 and at 24; behind the first there is padding.
  for (const std::size_t at : {17U, 18U, 19U}) whole[at] = std::byte{};
  const auto without = [&](bool first, bool second) {
    std::vector<std::byte> left(whole.begin(), whole.begin() + 12);
    if (!first) left.insert(left.end(), whole.begin() + 12, whole.begin() + 20);
    left.insert(left.end(), whole.begin() + 20, whole.begin() + 24);
    if (!second) left.insert(left.end(), whole.begin() + 24, whole.begin() + 36);
    left.insert(left.end(), whole.begin() + 36, whole.end());
    return left;
  };
  const MessageReader::Placed items[] = {{kPosition + 12, Bytes(whole).subspan(12, 5)},
                                         {kPosition + 24, Bytes(whole).subspan(24, 12)}};
  const std::uint64_t sum = sum_of_arguments(whole, kPosition, {});
  EXPECT_EQ(sum_of_arguments(without(true, true), kPosition, items), sum);
  EXPECT_EQ(sum_of_arguments(without(true, false), kPosition, std::span(items).first(1)), sum);
  EXPECT_EQ(sum_of_arguments(without(false, true), kPosition, std::span(items).last(1)), sum);
  const MessageReader::Placed padded[] = {{kPosition + 12, Bytes(whole).subspan(12, 8)}};
  EXPECT_EQ(sum_of_arguments(without(true, false), kPosition, padded), sum)
      << "a peer may send the padding, too";
  whole[30] ^= std::byte{1};
  EXPECT_NE(sum_of_arguments(without(true, true), kPosition, items), sum);
}

TEST(SumOfArguments, TakesPositionsThatMakeNoSense) {
  const std::vector<std::byte> bytes(16);
  for (const std::uint32_t position : {0U, 100U, MessageReader::kInOrder}) {
    const MessageReader::Placed items[] = {{position, bytes}, {position, bytes}};
    EXPECT_EQ(sum_of_arguments(bytes, 40, items), sum_of_arguments(bytes, 40, items));
  }
}

// --- Calls whose chunks were refused -------------------------------------------------------------

constexpr Instant kStart{std::chrono::hours(1)};

TEST(RefusedCalls, KnowsACallThatWasNotedAndNoOther) {
  RefusedCalls calls;
  calls.note(7, 1, kStart);
  EXPECT_TRUE(calls.contains(7, kStart));
  EXPECT_FALSE(calls.contains(8, kStart));
}

TEST(RefusedCalls, TakesACallWithoutANameForNone) {
  RefusedCalls calls;
  EXPECT_FALSE(calls.contains(0, Instant{}));
  calls.note(0, 1, kStart);
  EXPECT_FALSE(calls.contains(0, kStart));
}

TEST(RefusedCalls, ForgetsAfterItsLifetime) {
  constexpr std::chrono::nanoseconds kNext{1};
  RefusedCalls calls;
  calls.note(7, 1, kStart);
  EXPECT_TRUE(calls.contains(7, kStart + RefusedCalls::kLifetime));
  EXPECT_FALSE(calls.contains(7, kStart + RefusedCalls::kLifetime + kNext));
  ReplyCache cache(10, 1000);
  EXPECT_FALSE(cache.was_refused(7, kStart));
  cache.note_refused(7, 1, kStart);
  EXPECT_TRUE(cache.was_refused(7, kStart + RefusedCalls::kLifetime));
  EXPECT_FALSE(cache.was_refused(7, kStart + RefusedCalls::kLifetime + kNext));
}

TEST(RefusedCalls, KeepsTheNewestOfMany) {
  RefusedCalls calls;
  for (std::uint64_t call = 1; call <= 100; ++call) calls.note(call, 1, kStart);
  EXPECT_TRUE(calls.contains(100, kStart));
  EXPECT_TRUE(calls.contains(37, kStart));
  EXPECT_FALSE(calls.contains(36, kStart));
}

TEST(RefusedCalls, KeepsTheCallOfAHostWhateverAnotherRefuses) {
  RefusedCalls calls;
  calls.note(1000, 2, kStart);
  for (std::uint64_t call = 1; call <= 100; ++call) calls.note(call, 1, kStart);
  EXPECT_TRUE(calls.contains(1000, kStart));
  EXPECT_TRUE(calls.contains(100, kStart));
}

}  // namespace
}  // namespace rpcrdma::rpc
