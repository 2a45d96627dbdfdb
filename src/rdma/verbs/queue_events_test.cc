// No device takes part: events and queue pairs are what a device's library would hand over.
#include "rdma/verbs/queue_events.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

namespace rpcrdma::rdma::verbs {
namespace {

using Fault = QueueEvents::Fault;

class QueueEventsTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kQueues = 3;

  QueueEventsTest() {
    for (std::size_t i = 0; i < kQueues; ++i) {
      pairs_[i].context = &device_;
      pairs_[i].srq = i < 2 ? &shared_ : nullptr;  // the first two have accepted connections
      pairs_[i].recv_cq = i < 2 ? &shared_completions_ : &completions_[i];
      pairs_[i].send_cq = &completions_[i];
      events_[i].emplace(*reactor_, noted_, owners_[i]);
      events_[i]->watch(pairs_[i]);
    }
  }
  struct Owner final : QueueEvents::Owner {
    void handle_queue_event() noexcept override { ++count; }
    int count = 0;  // of what it heard of
  };

  void deliver(const ibv_async_event& event) const { QueueEvents::deliver(event, device_); }
  std::array<int, kQueues> heard() {
    noted_.pass_on();
    return {owners_[0].count, owners_[1].count, owners_[2].count};
  }
  std::array<Fault, kQueues> faults() const {
    return {events_[0]->fault(), events_[1]->fault(), events_[2]->fault()};
  }

  std::unique_ptr<posix::Reactor> reactor_ = posix::Reactor::make().value();
  ibv_context device_{}, other_device_{};
  ibv_srq shared_{};
  ibv_cq shared_completions_{};
  std::array<ibv_cq, kQueues> completions_{};
  std::array<ibv_qp, kQueues> pairs_{};
  std::array<Owner, kQueues> owners_;
  NotedEvents noted_;
  std::array<std::optional<QueueEvents>, kQueues> events_;
};

TEST_F(QueueEventsTest, EventOfAQueuePairConcernsThatOneAlone) {
  ibv_async_event event{};
  event.element.qp = &pairs_[1];
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  deliver(event);
  EXPECT_EQ(faults(), (std::array{Fault::kNone, Fault::kPeers, Fault::kNone}));
  event.element.qp = &pairs_[0];
  event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
  deliver(event);
  EXPECT_TRUE(events_[0]->has_last_receive());
  EXPECT_EQ(events_[0]->fault(), Fault::kNone);
}

// A peer can make events as often as it likes, and there are many connections beside its own.
TEST_F(QueueEventsTest, EventIsPassedOnToItsOwnerAlone) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  event.element.qp = &pairs_[1];
  deliver(event);
  deliver(event);
  EXPECT_EQ(heard(), (std::array{0, 1, 0}));
  EXPECT_EQ(heard(), (std::array{0, 1, 0})) << "that was all";
  deliver(event);
  event.element.qp = &pairs_[2];
  deliver(event);
  event.element.qp = &pairs_[0];
  deliver(event);
  events_[2]->forget();
  EXPECT_EQ(heard(), (std::array{1, 2, 0})) << "one of them is gone";
}

// Quiet connections would wait for ever for messages that nobody can receive.
TEST_F(QueueEventsTest, FailureOfASharedQueueConcernsAllThatReceiveThere) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_SRQ_ERR;
  event.element.srq = &shared_;
  deliver(event);
  EXPECT_EQ(faults(), (std::array{Fault::kQueue, Fault::kQueue, Fault::kNone}));
  EXPECT_EQ(heard(), (std::array{1, 1, 0}));
}

// Each queue pair fails behind its queue.
TEST_F(QueueEventsTest, FailureThatConcernsMoreStays) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_SRQ_ERR;
  event.element.srq = &shared_;
  deliver(event);
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = &pairs_[0];
  deliver(event);
  EXPECT_EQ(events_[0]->fault(), Fault::kQueue);
}

TEST_F(QueueEventsTest, FailureOfACompletionQueueConcernsThoseThatCompleteThere) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = &completions_[2];
  deliver(event);
  EXPECT_EQ(faults(), (std::array{Fault::kNone, Fault::kNone, Fault::kQueue}));
  event.element.cq = &shared_completions_;
  deliver(event);
  EXPECT_EQ(faults(), (std::array{Fault::kQueue, Fault::kQueue, Fault::kQueue}));
}

// One thread alone reads the event, and connections of all threads have to hear of it.
TEST_F(QueueEventsTest, FailureOfTheDeviceConcernsAllItsConnections) {
  pairs_[1].context = &other_device_;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  deliver(event);
  EXPECT_EQ(faults(), (std::array{Fault::kDevice, Fault::kNone, Fault::kDevice}));
}

TEST_F(QueueEventsTest, EventOfAQueueThatIsForgottenConcernsNobody) {
  events_[1]->forget();
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = &pairs_[1];
  deliver(event);
  event.event_type = IBV_EVENT_PORT_ERR;
  deliver(event);
  EXPECT_EQ(faults(), (std::array{Fault::kNone, Fault::kNone, Fault::kNone}));
}

// A client that is static, and made before everything else: it goes last, with a last connection.
struct StaticClient final : QueueEvents::Owner {
  ~StaticClient() {
    if (!events) return;
    events->forget();
    events->watch(pair);
    events.reset();
    std::fputs("the static client has gone", stderr);
  }
  void handle_queue_event() noexcept override {}
  void open() {
    reactor = posix::Reactor::make().value();
    events.emplace(*reactor, noted, *this);
    events->watch(pair);
  }

  std::unique_ptr<posix::Reactor> reactor;
  NotedEvents noted;
  ibv_qp pair{};
  std::optional<QueueEvents> events;
};
[[gnu::init_priority(101)]] StaticClient static_client;

TEST(QueueEventsDeathTest, AreThereForStaticClientsAtTheEndOfTheProgram) {
  EXPECT_EXIT(
      {
        static_client.open();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "the static client has gone");
}

}  // namespace
}  // namespace rpcrdma::rdma::verbs
