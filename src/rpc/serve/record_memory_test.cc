#include "rpc/serve/record_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace rpcrdma::rpc {
namespace {

constexpr std::size_t kKibi = 1024, kMebi = 1024 * kKibi;

// Large buffers have 1.75 MiB of the pool. The longest record has 1 MiB, so that records grow in
// 768 KiB.
constexpr std::size_t kPoolSize = 2 * kMebi;

class RecordMemoryTest : public ::testing::Test {
 protected:
  // A connection that sends one record.
  class Sender final : public tcp::NewsListener {
   public:
    Sender(RecordMemoryTest& test, std::string_view peer)
        : share_(test.memory_, test.host_memory_, peer) {
      share_.set_listener(*this);
    }
    ~Sender() { give_back(); }
    void handle_news() noexcept override { ++news; }

    // Its record grows; returns whether there was memory.
    bool grow(std::size_t size, std::size_t whole = kMebi) {
      const MutableBytes larger = share_.take(size, whole);
      if (larger.empty()) return false;
      give_back();
      record_ = larger;
      return true;
    }
    void complete() { share_.handle_complete(record_.data()); }
    void give_back() {
      if (!record_.empty()) share_.give_back(std::exchange(record_, {}));
    }
    void stop_waiting() { share_.stop_waiting(); }
    std::size_t size() const { return record_.size(); }

    int news = 0;

   private:
    RecordMemory::Share share_;
    MutableBytes record_;
  };

  // The host is one of its own, unless it is named.
  Sender& add(std::string_view peer = {}) {
    const std::string address = "10.0.0." + std::to_string(senders_.size()) + ":1";
    return *senders_.emplace_back(
        std::make_unique<Sender>(*this, peer.empty() ? std::string_view(address) : peer));
  }
  // Records take all in which they may grow, and one more is being completed.
  Sender& fill() {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(add().grow(256 * kKibi));
    Sender& completing = *senders_[0];
    EXPECT_TRUE(completing.grow(512 * kKibi));
    EXPECT_EQ(completing.size(), kMebi);
    EXPECT_TRUE(add().grow(256 * kKibi)) << "where the other one grew";
    return completing;
  }

  transport::BufferPool pool_{kPoolSize};
  RecordMemory memory_{pool_, kPoolSize, kMebi};
  HostMemory* host_memory_ = nullptr;
  std::vector<std::unique_ptr<Sender>> senders_;
};

TEST_F(RecordMemoryTest, GivesTheRestOfARecordAtOnceWhenItMayNotGrowAnyMore) {
  Sender& one = add();
  EXPECT_TRUE(one.grow(64 * kKibi));
  EXPECT_EQ(one.size(), 64 * kKibi);
  EXPECT_TRUE(one.grow(256 * kKibi));
  EXPECT_EQ(one.size(), 256 * kKibi);
  EXPECT_TRUE(one.grow(1024 * kKibi, 600 * kKibi)) << "beside what it has there is no room to grow";
  EXPECT_EQ(one.size(), kMebi);
}

TEST_F(RecordMemoryTest, CompletesOneRecordAtATime) {
  Sender& completing = fill();
  Sender& next = *senders_[1];
  EXPECT_FALSE(next.grow(512 * kKibi));
  memory_.retry();
  EXPECT_EQ(next.news, 0);
  completing.complete();
  memory_.retry();
  EXPECT_EQ(next.news, 1);
  EXPECT_FALSE(next.grow(512 * kKibi)) << "its call has the memory";
  memory_.retry();
  EXPECT_EQ(next.news, 1);
  completing.give_back();
  memory_.retry();
  EXPECT_EQ(next.news, 2);
  EXPECT_TRUE(next.grow(512 * kKibi));
}

TEST_F(RecordMemoryTest, NextRecordIsCompletedWhenThePeerOfOneHasGone) {
  Sender& completing = fill();
  EXPECT_FALSE(senders_[1]->grow(512 * kKibi));
  completing.give_back();
  memory_.retry();
  EXPECT_EQ(senders_[1]->news, 1);
  EXPECT_TRUE(senders_[1]->grow(512 * kKibi));
}

TEST_F(RecordMemoryTest, HostThatHoldsLeastIsNext) {
  Sender& completing = fill();
  Sender& greedy = *senders_[1];
  EXPECT_FALSE(greedy.grow(512 * kKibi));
  Sender& modest = add();
  EXPECT_FALSE(modest.grow(16 * kKibi));
  completing.complete();
  completing.give_back();
  memory_.retry();
  EXPECT_EQ(greedy.news, 0);
  EXPECT_EQ(modest.news, 1);
  EXPECT_FALSE(greedy.grow(512 * kKibi)) << "it is not its turn";
  EXPECT_TRUE(modest.grow(16 * kKibi));
  EXPECT_EQ(modest.size(), kMebi);
}

TEST_F(RecordMemoryTest, ConnectionsOfAHostAreOneInTheLine) {
  Sender& completing = fill();
  Sender& same = add("10.0.0.1:2");
  EXPECT_FALSE(same.grow(16 * kKibi)) << "its host has 256 KiB on another connection";
  Sender& other = add();
  EXPECT_FALSE(other.grow(16 * kKibi));
  completing.complete();
  completing.give_back();
  memory_.retry();
  EXPECT_EQ(same.news, 0);
  EXPECT_EQ(other.news, 1);
}

TEST_F(RecordMemoryTest, OneThatLeavesTheLineMakesWayForTheNext) {
  Sender& completing = fill();
  Sender& first = add();
  EXPECT_FALSE(first.grow(16 * kKibi));
  EXPECT_FALSE(senders_[1]->grow(512 * kKibi));
  completing.complete();
  completing.give_back();
  first.stop_waiting();
  memory_.retry();
  EXPECT_EQ(first.news, 0);
  EXPECT_EQ(senders_[1]->news, 1);
}

TEST_F(RecordMemoryTest, SmallBuffersAreGivenWhoeverWaits) {
  fill();
  EXPECT_FALSE(senders_[1]->grow(512 * kKibi));
  EXPECT_TRUE(add().grow(4 * kKibi));
}

// Beginnings have 256 KiB.
TEST_F(RecordMemoryTest, RecordsThatHaveBegunLeaveEnoughToCompleteOne) {
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(add().grow(4 * kKibi));
  EXPECT_TRUE(add().grow(4 * kKibi, 4 * kKibi)) << "it is completed";
  Sender& last = add();
  EXPECT_FALSE(last.grow(4 * kKibi));
  senders_[64]->complete();
  memory_.retry();
  EXPECT_EQ(last.news, 1);
  EXPECT_TRUE(last.grow(4 * kKibi, 4 * kKibi));
  last.complete();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(senders_[static_cast<std::size_t>(i)]->grow(256 * kKibi));
  EXPECT_EQ(senders_[2]->size(), 256 * kKibi);
  EXPECT_EQ(senders_[3]->size(), kMebi);
}

TEST_F(RecordMemoryTest, HostLeavesMemoryToTheRecordsOfOthers) {
  HostMemory bound(kPoolSize);
  host_memory_ = &bound;
  HostMemory::Share results(&bound, "10.0.1.1:1");
  results.took(kMebi);
  EXPECT_TRUE(add("10.0.1.1:2").grow(256 * kKibi));
  Sender& second = add("10.0.1.1:3");
  EXPECT_TRUE(second.grow(512 * kKibi));
  EXPECT_EQ(second.size(), kMebi) << "it had its rest at once, where a record is completed";
  EXPECT_FALSE(add("10.0.1.1:4").grow(256 * kKibi));
  Sender& other = add();
  EXPECT_FALSE(other.grow(256 * kKibi)) << "it has not had its turn in the line";
  memory_.retry();
  EXPECT_EQ(other.news, 1);
  EXPECT_TRUE(other.grow(256 * kKibi));
  EXPECT_EQ(other.size(), 256 * kKibi);
  senders_.clear();
}

}  // namespace
}  // namespace rpcrdma::rpc
