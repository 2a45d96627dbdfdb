#include "mount/request_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "rpcrdma/coroutine.h"

namespace mounts {
namespace {

class RequestSlotsTest : public testing::Test {
 protected:
  // Begins an operation, which keeps its slot until it is given back.
  void begin(std::uint32_t uid) {
    turns_.begin([](RequestSlotsTest& test, std::uint32_t of) -> rpcrdma::Task<void> {
      co_await test.slots_.take(of);
      test.at_work_.push_back(of);
      test.holders_.push_back(of);
    }(*this, uid));
  }
  void give_back(std::uint32_t uid) {
    holders_.erase(std::ranges::find(holders_, uid));
    slots_.give_back(uid);
    turns_.resume_ready();
  }
  // Those that wait get their slots, too.
  void TearDown() override {
    while (!holders_.empty()) give_back(holders_.front());
    EXPECT_EQ(turns_.active(), 0U);
  }

  nfs::Turns turns_;
  RequestSlots slots_{turns_, 100};
  std::vector<std::uint32_t> at_work_;  // users, as their operations began
  std::deque<std::uint32_t> holders_;   // users, one for each slot
};

TEST_F(RequestSlotsTest, UserWhoseOperationsHangLeavesSlotsForOthers) {
  for (int i = 0; i < 500; ++i) begin(7);
  EXPECT_EQ(at_work_.size(), 75U);
  for (int i = 0; i < 500; ++i) begin(8);
  for (std::uint32_t uid = 9; uid < 12; ++uid) begin(uid);
  EXPECT_THAT(std::vector(at_work_.end() - 3, at_work_.end()), testing::ElementsAre(9, 10, 11));
  EXPECT_GT(slots_.free_count(), 0U);
}

TEST_F(RequestSlotsTest, UsersWhoWaitGetSlotsInTurn) {
  for (int i = 0; i < 75; ++i) begin(1);
  for (std::uint32_t i = 0; i < 24; ++i) begin(100 + i);
  at_work_.clear();
  for (int i = 0; i < 3; ++i) begin(7);  // the last free one leaves none for the rest
  EXPECT_THAT(at_work_, testing::ElementsAre(7));
  begin(8), begin(8);
  at_work_.clear();
  for (int i = 0; i < 4; ++i) give_back(1);
  EXPECT_THAT(at_work_, testing::ElementsAre(7, 8, 7, 8));
}

TEST_F(RequestSlotsTest, SlotsComeBack) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 80; ++i) begin(7);
    turns_.resume_ready();
    for (int i = 0; i < 80; ++i) give_back(7);
    EXPECT_EQ(slots_.free_count(), 100U);
  }
  EXPECT_EQ(at_work_.size(), 240U);
}

}  // namespace
}  // namespace mounts
