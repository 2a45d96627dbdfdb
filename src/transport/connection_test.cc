#include "transport/connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace rpcrdma::transport {
namespace {

// Takes as much work as the test allows, and tells what the test says.
class FakeQueuePair final : public rdma::QueuePair {
 public:
  const rdma::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Expected<rdma::RegionId, rdma::Error> attach(MutableBytes) override {
    return rdma::RegionId{++last_region_};
  }
  Expected<rdma::RegionId, rdma::Error> attach_read_only(Bytes) override {
    return rdma::RegionId{++last_region_};
  }
  void detach(rdma::RegionId) override {}
  Bytes peer_private_data() const noexcept override { return {}; }
  std::string_view peer_address() const noexcept override { return "peer"; }
  Expected<void, rdma::Error> post(std::span<rdma::WorkRequest> batch) override {
    if (batch.size() > room) {
      return Unexpected<rdma::Error>({rdma::Errc::kNoResources, 0, "posting"});
    }
    room -= batch.size();
    for (const rdma::WorkRequest& work : batch) posted.push_back(work.id);
    return {};
  }
  Expected<void, rdma::Error> post_receives(const rdma::ReceiveBuffers&,
                                            std::span<const std::uint16_t>) override {
    return {};
  }
  std::size_t poll(std::span<rdma::Completion> out) override {
    const std::size_t count = std::min(out.size(), completions.size());
    for (rdma::Completion& completion : out.first(count)) {
      completion = completions.front();
      completions.pop_front();
    }
    return count;
  }
  std::optional<rdma::LinkEvent> poll_link() override { return std::exchange(event, {}); }
  rdma::Error cause() const noexcept override { return {rdma::Errc::kClosed, 0, "the end"}; }
  void disconnect() noexcept override { event = rdma::LinkEvent::kDisconnected; }
  rdma::Counters counters() const noexcept override { return {}; }

  std::size_t room = 1000;  // work requests that are still taken, besides Receives
  std::vector<std::uint64_t> posted;
  std::deque<rdma::Completion> completions;
  std::optional<rdma::LinkEvent> event = rdma::LinkEvent::kConnected;

 private:
  const rdma::Capabilities capabilities_{64, 16, rdma::kSlicesMax, true, true};
  std::uint32_t last_region_ = 0;
};

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    auto made = std::make_unique<FakeQueuePair>();
    queue_pair_ = made.get();
    connection_ =
        std::move(*Connection::create(std::move(made), engine::Role::kClient, engine::Options{}));
    connection_->pump(Instant{});
    EXPECT_TRUE(connection_->connected());
  }
  // A Call with so many places for results, each of which has to be exposed.
  void start_call(std::size_t results) {
    const engine::Lease lease = *connection_->attach(memory_);
    const engine::Fragment run{lease, 40, 0, 0};
    std::vector<engine::ResultRoom> places;
    for (std::uint16_t item = 1; item <= results; ++item) {
      places.push_back({lease, 4000, 40 + 4000U * item, item});
    }
    engine::Outgoing call;
    call.stream = {&run, 1};
    call.results = places;
    call.reply_size_max = 100 + 4000 * static_cast<std::uint32_t>(results);
    ASSERT_TRUE(
        connection_->engine().start_call(Instant{}, Xid{1}, call, std::chrono::seconds(60)));
    EXPECT_TRUE(connection_->pump(Instant{}));
  }
  void complete(std::uint64_t id) {
    queue_pair_->completions.push_back({id, rdma::Status::kOk, 0, SteeringTag{7}, 100});
  }

  std::array<std::byte, 20'000> memory_{};
  FakeQueuePair* queue_pair_ = nullptr;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, PumpTellsOfOneCompletionThatLeadsToNothing) {
  start_call(0);
  ASSERT_EQ(queue_pair_->posted.size(), 1U) << "the Send";
  EXPECT_FALSE(connection_->pump(Instant{})) << "nothing happened";
  complete(queue_pair_->posted[0]);
  EXPECT_TRUE(connection_->pump(Instant{}));
  EXPECT_FALSE(connection_->pump(Instant{}));
}

TEST_F(ConnectionTest, BatchThatDoesNotFitTheQueueIsPostedAsFarAsItGoes) {
  queue_pair_->room = 1;
  start_call(3);
  ASSERT_EQ(queue_pair_->posted.size(), 1U);
  for (std::size_t done = 0; done < 3; ++done) {
    ++queue_pair_->room;
    complete(queue_pair_->posted[done]);
    EXPECT_TRUE(connection_->pump(Instant{}));
    ASSERT_EQ(queue_pair_->posted.size(), done + 2) << "three places are exposed, then the Send";
  }
}

}  // namespace
}  // namespace rpcrdma::transport
