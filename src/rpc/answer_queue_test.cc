#include "rpc/answer_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "rpc/serve/serving_for_test.h"

namespace rpcrdma::rpc {
namespace {

class AnswerQueueTest : public ::testing::Test {
 protected:
  void deliver(std::size_t call) {
    queue.deliver(calls[call], [] {});
  }
  void take(const IncomingCall* fails = nullptr) {
    queue.take_all([&](IncomingCall& call) {
      taken.push_back(&call);
      if (&call == fails) throw std::runtime_error("the service is ill");
    });
  }

  oncrpc::ServiceRegistry registry;
  ReplyCache cache{0, 0};
  MailboxForTest mailbox;
  CarrierForTest carrier{registry, cache, mailbox};
  std::array<CallForTest, 3> calls{CallForTest{carrier.serving, {}},
                                   CallForTest{carrier.serving, {}},
                                   CallForTest{carrier.serving, {}}};
  AnswerQueue queue;
  std::vector<const IncomingCall*> taken;
};

TEST_F(AnswerQueueTest, LeavesACallThatIsDeliveredMeanwhileToTheNextRound) {
  deliver(0);
  queue.take_all([this](IncomingCall& call) {
    taken.push_back(&call);
    deliver(1);
  });
  EXPECT_EQ(taken, (std::vector<const IncomingCall*>{&calls[0]}));
  take();
  EXPECT_EQ(taken, (std::vector<const IncomingCall*>{&calls[0], &calls[1]}));
  take();
  EXPECT_EQ(taken.size(), 2U);
}

TEST_F(AnswerQueueTest, TakesEachCallOnceThoughAServiceThrows) {
  for (const std::size_t call : {0U, 1U}) deliver(call);
  EXPECT_THROW(take(&calls[0]), std::runtime_error);
  EXPECT_EQ(taken, (std::vector<const IncomingCall*>{&calls[0]}));
  deliver(2);
  take();
  EXPECT_EQ(taken, (std::vector<const IncomingCall*>{&calls[0], &calls[1], &calls[2]}));
  take();
  EXPECT_EQ(taken.size(), 3U);
}

TEST_F(AnswerQueueTest, GoesOnBehindEachServiceThatThrows) {
  for (const std::size_t call : {0U, 1U, 2U}) deliver(call);
  EXPECT_THROW(take(&calls[0]), std::runtime_error);
  EXPECT_THROW(take(&calls[1]), std::runtime_error);
  EXPECT_THROW(take(&calls[2]), std::runtime_error);
  take();
  EXPECT_EQ(taken, (std::vector<const IncomingCall*>{&calls[0], &calls[1], &calls[2]}));
}

}  // namespace
}  // namespace rpcrdma::rpc
