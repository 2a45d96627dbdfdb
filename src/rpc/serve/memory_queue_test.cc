#include "rpc/serve/memory_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace rpcrdma::rpc {
namespace {

// The queue only hands them out.
class Calls {
 public:
  Context& operator[](std::size_t index) { return reinterpret_cast<Context&>(places_.at(index)); }
  std::size_t index_of(const Context* context) const {
    return static_cast<std::size_t>(reinterpret_cast<const char*>(context) - places_.data());
  }

 private:
  std::array<char, 16> places_{};
};

class MemoryQueueTest : public ::testing::Test {
 protected:
  MemoryQueue::Ticket enter(MemoryQueue::Member& member, std::size_t call,
                            std::size_t bytes = 100) {
    return tickets_.at(call) = queue_.enter(member, calls_[call], bytes);
  }
  std::size_t first() const { return calls_.index_of(queue_.first()); }
  // Gives the first what it wants.
  std::size_t serve() {
    const std::size_t call = first();
    queue_.stop_waiting(tickets_.at(call), true);
    return call;
  }

  Calls calls_;
  MemoryQueue queue_;
  std::array<MemoryQueue::Ticket, 16> tickets_;
};

TEST_F(MemoryQueueTest, ServesTheCallsOfASessionInTheirOrder) {
  MemoryQueue::Member one(queue_);
  for (std::size_t i = 0; i < 4; ++i) enter(one, i);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(serve(), i);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.first(), nullptr);
}

TEST_F(MemoryQueueTest, ServesTheSessionThatHoldsLeast) {
  MemoryQueue::Member greedy(queue_), modest(queue_);
  greedy.took(1000);
  modest.took(100);
  enter(greedy, 0);
  enter(modest, 1);
  EXPECT_EQ(first(), 1U);
  modest.took(2000);
  EXPECT_EQ(first(), 0U) << "while it waits";
  modest.gave_back(2000);
  EXPECT_EQ(serve(), 1U);
  EXPECT_EQ(serve(), 0U);
}

// Attackers that came before wait with many calls, or come again and again.
TEST_F(MemoryQueueTest, ServesTheOldestAndTheOneThatWantsLeastByTurns) {
  MemoryQueue::Member old(queue_), many(queue_), young(queue_);
  enter(old, 0, 500);
  for (std::size_t i = 1; i < 6; ++i) enter(many, i);
  enter(young, 6);
  EXPECT_EQ(serve(), 0U) << "waits longest";
  EXPECT_EQ(serve(), 6U) << "wants least";
  EXPECT_EQ(serve(), 1U);
}

TEST_F(MemoryQueueTest, AmongThoseThatWantTheSameServesTheNewestEveryOtherTime) {
  std::vector<std::unique_ptr<MemoryQueue::Member>> members;
  for (std::size_t i = 0; i < 6; ++i) {
    members.push_back(std::make_unique<MemoryQueue::Member>(queue_));
    enter(*members.back(), i);
  }
  std::vector<std::size_t> order;
  while (!queue_.empty()) order.push_back(serve());
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 5, 1, 4, 2, 3}));
}

TEST_F(MemoryQueueTest, TurnOfOneThatLeavesUnservedIsTheNextOnes) {
  MemoryQueue::Member one(queue_), other(queue_);
  enter(one, 0);
  enter(other, 1);
  queue_.stop_waiting(tickets_[0], false);
  EXPECT_EQ(first(), 1U);
}

TEST_F(MemoryQueueTest, NewFirstIsWorthTrying) {
  MemoryQueue::Member greedy(queue_), modest(queue_);
  greedy.took(1000);
  enter(greedy, 0);
  queue_.note_tried(5000);
  EXPECT_FALSE(queue_.is_worth_trying(5000)) << "nothing has come back since it was tried";
  EXPECT_TRUE(queue_.is_worth_trying(5001));
  enter(modest, 1);
  EXPECT_TRUE(queue_.is_worth_trying(5000)) << "it may want less";
}

}  // namespace
}  // namespace rpcrdma::rpc
