#include "gss/context_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace rpcrdma::gss {
namespace {

using std::chrono::seconds;

class NoContext final : public Context {
 public:
  NoContext(std::optional<seconds> lifetime, std::atomic<int>& alive)
      : lifetime_(lifetime), alive_(alive) {
    ++alive_;
  }
  ~NoContext() override { --alive_; }
  Status step(Bytes /*token*/, std::vector<std::byte>& /*answer*/) override { return {}; }
  std::optional<seconds> lifetime() const override { return lifetime_; }
  Status checksum(std::span<const Bytes> /*pieces*/, std::vector<std::byte>& /*sum*/) override {
    return {};
  }
  bool is_checksum_of(std::span<const Bytes> /*pieces*/, Bytes /*sum*/) override { return true; }
  std::size_t wrap_header_size() const override { return 0; }
  std::size_t wrap_trailer_size() const override { return 0; }
  Status wrap(MutableBytes /*whole*/) override { return {}; }
  std::optional<MutableBytes> unwrap(MutableBytes token) override { return token; }
  std::string_view principal() const override { return "somebody"; }
  std::string local_user() override { return {}; }

 private:
  const std::optional<seconds> lifetime_;
  std::atomic<int>& alive_;
};

constexpr std::string_view kPeer = "192.0.2.1:700";
using Handle = std::array<std::byte, ContextTable::kHandleSize>;
constexpr std::uint64_t kFirst = 0xfedcba9876543210;

class ContextTableTest : public ::testing::Test {
 protected:
  std::unique_ptr<Context> made(std::optional<seconds> lifetime = std::nullopt) {
    return std::make_unique<NoContext>(lifetime, alive_);
  }
  static Handle handle(std::uint64_t number) {
    Handle bytes{};
    ContextTable::encode(number, bytes);
    return bytes;
  }
  // One that is complete.
  Handle add(std::optional<seconds> lifetime = std::nullopt, std::string_view peer = kPeer) {
    const auto use = table_.add(made(lifetime), peer);
    table_.set_complete(use);
    return handle(use->handle);
  }

  std::atomic<int> alive_ = 0;
  Instant now_{};
  std::uint64_t next_ = kFirst;
  std::vector<std::uint64_t> drawn_;  // the one that comes next, if any
  ContextTable table_{
      {.contexts_max = 3, .making_max = 2, .few_per_host = 0, .window = 64},
      [this] { return drawn_.empty() ? next_++ : std::exchange(drawn_, {}).front(); },
      [this] { return now_; }};
};

TEST_F(ContextTableTest, RemovesABegunContextOnlyWhileItIsIncomplete) {
  const auto begun = table_.add(made(), kPeer), complete = table_.add(made(), kPeer);
  table_.set_complete(complete);
  table_.remove_begun(complete);
  EXPECT_TRUE(table_.find(handle(complete->handle)));
  table_.remove_begun(begun);
  table_.remove_begun(begun);
  EXPECT_FALSE(table_.find_begun(handle(begun->handle), kPeer));
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(ContextTableTest, FindsWhatIsComplete) {
  const auto use = table_.add(made(), kPeer);
  const Handle its = handle(use->handle);
  EXPECT_EQ(its, handle(kFirst));
  EXPECT_FALSE(table_.find(its)) << "its client has more to send";
  EXPECT_TRUE(table_.find_begun(its, kPeer));
  table_.set_complete(use);
  ASSERT_TRUE(table_.find(its));
  EXPECT_EQ(&*table_.find(its), &*use);
  EXPECT_FALSE(table_.find_begun(its, kPeer));
}

TEST_F(ContextTableTest, KnowsNoOtherHandles) {
  const Handle its = add();
  EXPECT_FALSE(table_.find(handle(kFirst + 1)));
  EXPECT_FALSE(table_.find(handle(kFirst - 1)));
  EXPECT_FALSE(table_.find(Bytes(its).first(4)));
  EXPECT_FALSE(table_.find({}));
  std::array<std::byte, 16> longer{};
  std::copy(its.begin(), its.end(), longer.begin());
  EXPECT_FALSE(table_.find(longer));
}

TEST_F(ContextTableTest, GivesNoHandleTwice) {
  const Handle first = add();
  table_.remove(table_.find(first));
  EXPECT_NE(add(), first);
  EXPECT_FALSE(table_.find(first));
}

TEST_F(ContextTableTest, DrawsAgainWhereAHandleIsInUse) {
  const Handle first = add();
  drawn_ = {kFirst};
  const Handle second = add();
  EXPECT_NE(second, first);
  EXPECT_TRUE(table_.find(first));
  EXPECT_TRUE(table_.find(second));
}

TEST_F(ContextTableTest, OnlyThePeerThatBeganAContextGoesOnWithIt) {
  const auto use = table_.add(made(), kPeer);
  const Handle its = handle(use->handle);
  EXPECT_FALSE(table_.find_begun(its, "192.0.2.1:701"));
  EXPECT_FALSE(table_.find_begun(its, ""));
  EXPECT_TRUE(table_.find_begun(its, kPeer));
}

TEST_F(ContextTableTest, HostThatBeginsManyLosesItsOwnOldestOne) {
  ContextTable table(
      {.making_max = 100, .making_per_host = 2}, [this] { return next_++; },
      [this] { return now_; });
  const Handle others = handle(table.add(made(), "192.0.2.2:700")->handle);
  std::vector<Handle> begun;
  for (int i = 0; i < 50; ++i)
    begun.push_back(handle(table.add(made(), i % 2 == 0 ? kPeer : "192.0.2.1:701")->handle));
  EXPECT_EQ(table.size(), 3U);
  EXPECT_TRUE(table.find_begun(others, "192.0.2.2:700"));
  EXPECT_FALSE(table.find_begun(begun[47], "192.0.2.1:701"));
  EXPECT_TRUE(table.find_begun(begun[48], kPeer));
  table.set_complete(table.find_begun(begun[48], kPeer));
  (void)table.add(made(), kPeer);
  EXPECT_TRUE(table.find_begun(begun[49], "192.0.2.1:701")) << "a complete one does not count";
}

TEST_F(ContextTableTest, CompletingTwiceChangesNothing) {
  const auto use = table_.add(made(seconds(10)), kPeer);
  table_.set_complete(use);
  now_ += seconds(9);
  table_.set_complete(use);
  now_ += seconds(1);
  EXPECT_FALSE(table_.find(handle(use->handle))) << "its lifetime began once";
}

TEST_F(ContextTableTest, ForgetsWhatHasRunOut) {
  const Handle its = add(seconds(10));
  now_ += seconds(9);
  EXPECT_TRUE(table_.find(its));
  now_ += seconds(1);
  EXPECT_FALSE(table_.find(its));
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(alive_, 0);
}

TEST_F(ContextTableTest, ForgetsTheOneThatWasUsedLongestAgo) {
  const Handle first = add(), second = add(), third = add();
  EXPECT_TRUE(table_.find(first));
  const Handle fourth = add();
  EXPECT_FALSE(table_.find(second));
  for (const Handle& each : {first, third, fourth}) EXPECT_TRUE(table_.find(each));
  EXPECT_EQ(table_.size(), 3U);
}

TEST_F(ContextTableTest, HostThatCompletesManyLosesItsOwnAndNotThoseOfOthers) {
  const Handle quiet = add(std::nullopt, "192.0.2.2:700");
  for (int i = 0; i < 50; ++i) add(std::nullopt, i % 2 == 0 ? kPeer : "192.0.2.1:701");
  EXPECT_TRUE(table_.find(quiet)) << "it was used longest ago, but its host has no other";
  EXPECT_EQ(table_.size(), 3U);
}

TEST_F(ContextTableTest, HostThatBeginsManyTakesNoneOfAnotherWhereTheTableIsFull) {
  ContextTable table(
      {.making_max = 4, .making_per_host = 4, .few_per_host = 0}, [this] { return next_++; },
      [this] { return now_; });
  const Handle quiet = handle(table.add(made(), "192.0.2.2:700")->handle);
  for (int i = 0; i < 50; ++i) (void)table.add(made(), kPeer);
  EXPECT_EQ(table.size(), 4U);
  EXPECT_TRUE(table.find_begun(quiet, "192.0.2.2:700"));
}

// Whoever begins and does not go on holds up nobody whose context is complete.
TEST_F(ContextTableTest, BoundsThoseThatAreBeingMadeByThemselves) {
  const Handle complete = add();
  std::vector<Handle> begun;
  for (int i = 0; i < 5; ++i) begun.push_back(handle(table_.add(made(), kPeer)->handle));
  EXPECT_EQ(table_.size(), 3U);
  EXPECT_TRUE(table_.find(complete));
  EXPECT_FALSE(table_.find_begun(begun[2], kPeer));
  EXPECT_TRUE(table_.find_begun(begun[3], kPeer));
  EXPECT_EQ(alive_, 3);
}

TEST_F(ContextTableTest, KeepsWhatIsUsed) {
  const Handle its = add();
  {
    const auto use = table_.find(its);
    table_.remove(use);
    EXPECT_FALSE(table_.find(its));
    table_.remove(use);  // two DESTROYs at once
    EXPECT_EQ(use->context->principal(), "somebody");
    EXPECT_EQ(alive_, 1);
  }
  EXPECT_EQ(alive_, 0);
  // One that had to make room while its last token was looked at.
  const auto late = table_.add(made(), kPeer);
  for (int i = 0; i < 2; ++i) (void)table_.add(made(), kPeer);
  table_.set_complete(late);
  EXPECT_FALSE(table_.find(handle(late->handle)));
}

TEST_F(ContextTableTest, IsForManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int k = 0; k < 500; ++k) {
        const Handle its = add(seconds(k % 2));
        if (const auto use = table_.find(its)) {
          EXPECT_EQ(use->context->principal(), "somebody");
          if (k % 3 == 0) table_.remove(use);
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_LE(table_.size(), 5U);
  EXPECT_EQ(alive_, static_cast<int>(table_.size()));
}

}  // namespace
}  // namespace rpcrdma::gss
