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

// Small buffers have 256 KiB of the pool, and large ones 1.75 MiB. The longest record has 1 MiB, so
// that records grow in 768 KiB.
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
    bool waits() const { return share_.waits(); }
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
  // Records take all that they may grow in, and the first one, of 10.0.0.0, is completed in the
  // rest.
  Sender& fill() {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(add().grow(256 * kKibi));
    Sender& completed = *senders_[0];
    EXPECT_TRUE(completed.grow(512 * kKibi));
    EXPECT_EQ(completed.size(), kMebi);
    EXPECT_TRUE(add().grow(256 * kKibi)) << "where the other one grew";
    memory_.retry();
    return completed;
  }

  transport::BufferPool pool_{kPoolSize};
  RecordMemory memory_{pool_, kPoolSize, kMebi};
  HostMemory* host_memory_ = nullptr;
  std::vector<std::unique_ptr<Sender>> senders_;
};

TEST_F(RecordMemoryTest, GivesTheRestOfARecordAtOnceWhenItMayNotGrow) {
  Sender& one = add();
  EXPECT_TRUE(one.grow(64 * kKibi));
  EXPECT_EQ(one.size(), 64 * kKibi);
  EXPECT_TRUE(one.grow(256 * kKibi));
  EXPECT_EQ(one.size(), 256 * kKibi);
  EXPECT_TRUE(one.grow(1024 * kKibi, 600 * kKibi)) << "beside what it has there is no room to grow";
  EXPECT_EQ(one.size(), kMebi);
}

TEST_F(RecordMemoryTest, CompletesARecordWhenThePoolHasRoomForItAgain) {
  Sender& completed = fill();
  Sender& next = *senders_[1];
  EXPECT_FALSE(next.grow(512 * kKibi));
  memory_.retry();
  EXPECT_EQ(next.news, 0);
  completed.complete();
  EXPECT_FALSE(next.grow(512 * kKibi)) << "its call has the memory";
  completed.give_back();
  memory_.retry();
  EXPECT_EQ(next.news, 1);
  EXPECT_TRUE(next.grow(512 * kKibi));
  EXPECT_EQ(next.size(), kMebi);
  EXPECT_FALSE(next.waits());
}

TEST_F(RecordMemoryTest, RecordThatWaitsGrowsWhoeverWaitsToBeCompleted) {
  Sender& completed = fill();
  EXPECT_FALSE(senders_[1]->grow(512 * kKibi));
  Sender& other = add();
  EXPECT_FALSE(other.grow(16 * kKibi));
  completed.give_back();
  memory_.retry();
  EXPECT_EQ(other.news, 0) << "another host is before it, and it may not grow";
  senders_[2]->complete();
  memory_.retry();
  EXPECT_EQ(other.news, 0) << "the call of that record has the memory";
  senders_[2]->give_back();
  memory_.retry();
  EXPECT_EQ(other.news, 1);
  EXPECT_TRUE(other.grow(16 * kKibi));
  EXPECT_EQ(other.size(), 16 * kKibi);
}

TEST_F(RecordMemoryTest, BeginningOfARecordLeavesItsPlaceWhenTheRecordIsComplete) {
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(add().grow(4 * kKibi));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(add().grow(256 * kKibi));
  EXPECT_TRUE(add("10.0.9.1:1").grow(4 * kKibi, 4 * kKibi)) << "it is completed";
  Sender& next = add("10.0.9.1:2");
  EXPECT_FALSE(next.grow(4 * kKibi));
  senders_[0]->complete();
  memory_.retry();
  EXPECT_EQ(next.news, 1);
  EXPECT_TRUE(next.grow(4 * kKibi));
  EXPECT_EQ(next.size(), 4 * kKibi);
}

TEST_F(RecordMemoryTest, HostCompletesOneRecordUntilItsCallGivesTheMemoryBack) {
  Sender& one = add();
  EXPECT_TRUE(one.grow(1024 * kKibi, 64 * kKibi));
  EXPECT_EQ(one.size(), 64 * kKibi) << "it is completed, since it may not grow by so much";
  one.complete();
  Sender& same = add("10.0.0.0:2");
  EXPECT_FALSE(same.grow(1024 * kKibi, 64 * kKibi));
  EXPECT_TRUE(add().grow(1024 * kKibi, 64 * kKibi)) << "another host";
  one.give_back();
  memory_.retry();
  EXPECT_EQ(same.news, 1);
  EXPECT_TRUE(same.grow(1024 * kKibi, 64 * kKibi));
}

TEST_F(RecordMemoryTest, HostsHaveTurnsToCompleteARecord) {
  Sender& completed = fill();
  EXPECT_FALSE(add("10.0.0.0:2").grow(512 * kKibi));
  EXPECT_FALSE(add("10.0.0.0:3").grow(512 * kKibi));
  Sender& other = add();
  EXPECT_FALSE(other.grow(512 * kKibi));
  completed.give_back();
  EXPECT_FALSE(senders_[4]->grow(512 * kKibi)) << "another host has waited longer than since now";
  EXPECT_TRUE(other.grow(512 * kKibi));
  other.give_back();
  EXPECT_FALSE(add().grow(512 * kKibi)) << "of a host that comes now";
  EXPECT_TRUE(senders_[5]->grow(512 * kKibi));
}

TEST_F(RecordMemoryTest, OneThatLeavesTheLineMakesWayForTheNext) {
  Sender& completed = fill();
  Sender& first = add();
  EXPECT_FALSE(first.grow(16 * kKibi));
  Sender& next = *senders_[1];
  EXPECT_FALSE(next.grow(512 * kKibi));
  completed.give_back();
  memory_.retry();
  EXPECT_EQ(next.news, 0);
  EXPECT_FALSE(next.grow(512 * kKibi)) << "it is not its turn";
  first.stop_waiting();
  memory_.retry();
  EXPECT_EQ(next.news, 1);
  EXPECT_TRUE(next.grow(512 * kKibi));
}

TEST_F(RecordMemoryTest, HostThatHasHadItsTurnMakesWayForTheNext) {
  Sender& completed = fill();
  Sender& first = add("10.0.9.1:1");
  EXPECT_FALSE(first.grow(16 * kKibi, 512 * kKibi));
  EXPECT_FALSE(add("10.0.9.1:2").grow(16 * kKibi));
  Sender& next = add();
  EXPECT_FALSE(next.grow(16 * kKibi, 512 * kKibi));
  completed.give_back();
  memory_.retry();
  EXPECT_TRUE(first.grow(16 * kKibi, 512 * kKibi));
  EXPECT_EQ(next.news, 0);
  memory_.retry();
  EXPECT_EQ(next.news, 1);
  EXPECT_TRUE(next.grow(16 * kKibi, 512 * kKibi));
}

TEST_F(RecordMemoryTest, RoundLooksAtSoManyThatWait) {
  Sender& completed = fill();
  for (std::size_t i = 0; i < RecordMemory::kLooksMax + 1; ++i) {
    EXPECT_FALSE(add().grow(256 * kKibi));
  }
  completed.give_back();
  senders_[1]->give_back();
  memory_.retry();
  EXPECT_EQ(senders_[4]->news, 1);
  EXPECT_EQ(senders_.back()->news, 0);
  memory_.retry();
  EXPECT_EQ(senders_.back()->news, 1);
  memory_.retry();
  EXPECT_EQ(senders_[4]->news, 1) << "all have been looked at";
}

TEST_F(RecordMemoryTest, RecordsThatHaveBegunLeaveEnoughToCompleteOne) {
  for (int i = 0; i < 65; ++i) EXPECT_TRUE(add().grow(4 * kKibi));
  EXPECT_EQ(senders_[64]->size(), 4 * kKibi) << "where others grow";
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(senders_[i]->grow(256 * kKibi));
  EXPECT_EQ(senders_[1]->size(), 256 * kKibi);
  EXPECT_TRUE(senders_[2]->grow(256 * kKibi));
  EXPECT_EQ(senders_[2]->size(), kMebi) << "it is completed";
}

TEST_F(RecordMemoryTest, HostLeavesBeginningsOfRecordsToOthers) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(add("10.0.1.1:1").grow(256 * kKibi));
  for (int i = 0; i < 56; ++i) EXPECT_TRUE(add("10.0.1.1:1").grow(4 * kKibi));
  EXPECT_TRUE(add("10.0.1.1:1").grow(4 * kKibi));
  EXPECT_EQ(senders_.back()->size(), kMebi) << "it is completed";
  EXPECT_FALSE(add("10.0.1.1:1").grow(4 * kKibi));
  EXPECT_TRUE(add().grow(4 * kKibi));
  EXPECT_EQ(senders_.back()->size(), 4 * kKibi);
}

TEST_F(RecordMemoryTest, HostLeavesMemoryToTheRecordsOfOthers) {
  HostMemory bound(kPoolSize);
  host_memory_ = &bound;
  HostMemory::Share results(&bound, "10.0.1.1:1");
  results.took(kMebi);
  results.took(256 * kKibi);
  EXPECT_TRUE(add("10.0.1.1:2").grow(256 * kKibi));
  EXPECT_TRUE(add("10.0.1.1:3").grow(512 * kKibi));
  EXPECT_EQ(senders_.back()->size(), kMebi) << "it is completed";
  EXPECT_FALSE(add("10.0.1.1:4").grow(256 * kKibi));
  EXPECT_TRUE(add().grow(256 * kKibi));
  EXPECT_EQ(senders_.back()->size(), 256 * kKibi);
  senders_.clear();
}

}  // namespace
}  // namespace rpcrdma::rpc
