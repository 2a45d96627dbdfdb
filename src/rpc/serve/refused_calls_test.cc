#include "rpc/serve/refused_calls.h"

#include <gtest/gtest.h>

namespace rpcrdma::rpc {
namespace {

constexpr Instant kStart{std::chrono::hours(1)};

TEST(RefusedCalls, KnowsACallThatWasNotedAndNoOther) {
  RefusedCalls calls(10);
  calls.note(7, 0, kStart);
  EXPECT_TRUE(calls.contains(7, 0, kStart));
  EXPECT_FALSE(calls.contains(8, 0, kStart));
}

TEST(RefusedCalls, TakesACallWithoutANameForNone) {
  RefusedCalls calls(10);
  EXPECT_FALSE(calls.contains(0, 0, Instant{}));
  calls.note(0, 0, kStart);
  EXPECT_FALSE(calls.contains(0, 0, kStart));
}

TEST(RefusedCalls, ForgetsWhenTheReplyCacheWouldHave) {
  RefusedCalls calls(10);
  calls.note(7, 100, kStart);
  EXPECT_TRUE(calls.contains(7, 109, kStart));
  EXPECT_FALSE(calls.contains(7, 110, kStart));
}

TEST(RefusedCalls, ForgetsAfterItsLifetimeAlsoWithoutAReplyCache) {
  RefusedCalls calls(0);
  calls.note(7, 0, kStart);
  EXPECT_TRUE(calls.contains(7, 1000, kStart + RefusedCalls::kLifetime));
  EXPECT_FALSE(
      calls.contains(7, 0, kStart + RefusedCalls::kLifetime + std::chrono::nanoseconds(1)));
}

TEST(RefusedCalls, KeepsTheNewestOfMany) {
  RefusedCalls calls(10);
  for (std::uint64_t call = 1; call <= 100; ++call) calls.note(call, 0, kStart);
  EXPECT_TRUE(calls.contains(100, 0, kStart));
  EXPECT_TRUE(calls.contains(37, 0, kStart));
  EXPECT_FALSE(calls.contains(36, 0, kStart));
}

}  // namespace
}  // namespace rpcrdma::rpc
