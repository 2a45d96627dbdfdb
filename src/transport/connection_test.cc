#include "transport/connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

// The sanitizers would end the program where there is no memory.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier)
[[gnu::visibility("default")]] const char* __asan_default_options();
[[gnu::visibility("default")]] const char* __tsan_default_options();
const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
// NOLINTEND(bugprone-reserved-identifier)
}

namespace rpcrdma::transport {
namespace {

// Takes as much work as the test allows, and tells what the test says.
class FakeQueuePair final : public rdma::QueuePair {
 public:
  const rdma::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Expected<work::RegionId, rdma::Error> attach(MutableBytes memory) override {
    if (refuses_memory) return Unexpected<rdma::Error>({rdma::Errc::kNoResources, 0, "attaching"});
    regions[++last_region_] = memory;
    return work::RegionId{last_region_};
  }
  Expected<work::RegionId, rdma::Error> attach_read_only(Bytes) override {
    return work::RegionId{++last_region_};
  }
  void detach(work::RegionId region) override { regions.erase(static_cast<std::uint32_t>(region)); }
  Bytes peer_private_data() const noexcept override { return {}; }
  std::string_view peer_address() const noexcept override { return "peer"; }
  Expected<void, rdma::Error> post(std::span<work::Request> batch) override {
    if (batch.size() > room) {
      return Unexpected<rdma::Error>({rdma::Errc::kNoResources, 0, "posting"});
    }
    room -= batch.size();
    for (const work::Request& work : batch) posted.push_back(work.id);
    return {};
  }
  Expected<void, rdma::Error> post_receives(const rdma::ReceiveBuffers& buffers,
                                            std::span<const std::uint16_t> numbers) override {
    for (const std::uint16_t number : numbers) receives.push_back({number, buffers});
    return {};
  }
  std::size_t poll(std::span<rdma::Completion> out) override {
    while (floods && completions.size() < out.size() && !receives.empty()) {
      completions.push_back({.id = receives.front().number, .size = 4});
      receives.pop_front();
    }
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
  struct PostedReceive {
    std::uint16_t number;
    rdma::ReceiveBuffers buffers;
  };
  std::deque<PostedReceive> receives;
  std::map<std::uint32_t, MutableBytes> regions;  // attached
  bool refuses_memory = false;
  bool floods = false;  // fills each Receive at once, with less than a header
  std::deque<rdma::Completion> completions;
  std::optional<rdma::LinkEvent> event = rdma::LinkEvent::kConnected;

 private:
  const rdma::Capabilities capabilities_{64, 16, work::kSlicesMax, true, true};
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
    ASSERT_TRUE(connection_->engine().requester().start_call(Instant{}, Xid{1}, call,
                                                             std::chrono::seconds(60)));
    EXPECT_NE(connection_->pump(Instant{}), Connection::Moved::kNothing);
  }
  void complete(std::uint64_t id) {
    queue_pair_->completions.push_back({id, rdma::Status::kOk, 0, SteeringTag{7}, 100});
  }

  std::array<std::byte, 20'000> memory_{};
  FakeQueuePair* queue_pair_ = nullptr;
  std::unique_ptr<Connection> connection_;
};

// Each message is dropped, and its Receive posted again.
TEST_F(ConnectionTest, EndsItsTurnThoughMessagesComeAsFastAsItTakesThem) {
  queue_pair_->floods = true;
  EXPECT_EQ(connection_->pump(Instant{}), Connection::Moved::kPart)
      << "others have their turn, and then it goes on";
  EXPECT_GT(connection_->engine().counters().short_message_count, 0U);
  queue_pair_->floods = false;
  EXPECT_NE(connection_->pump(Instant{}), Connection::Moved::kPart);
}

TEST_F(ConnectionTest, TimeOfACallEndsThoughMessagesComeAsFastAsItTakesThem) {
  start_call(0);
  queue_pair_->floods = true;
  connection_->pump(Instant{} + std::chrono::seconds(65));
  EXPECT_EQ(connection_->engine().counters().timed_out, 1U);
}

// There is no room for them in any address space.
TEST(ConnectionOfManyCalls, IsRefusedWhereTheyHaveNoMemory) {
  MessageRooms rooms(std::size_t{1} << 40U);
  ASSERT_FALSE(rooms.is_whole());
  const auto made = Connection::create(std::make_unique<FakeQueuePair>(), engine::Role::kClient,
                                       engine::Options{}, &rooms);
  EXPECT_FALSE(made);
}

TEST_F(ConnectionTest, PumpTellsOfOneCompletionThatLeadsToNothing) {
  start_call(0);
  ASSERT_EQ(queue_pair_->posted.size(), 1U) << "the Send";
  EXPECT_EQ(connection_->pump(Instant{}), Connection::Moved::kNothing);
  complete(queue_pair_->posted[0]);
  EXPECT_NE(connection_->pump(Instant{}), Connection::Moved::kNothing);
  EXPECT_EQ(connection_->pump(Instant{}), Connection::Moved::kNothing);
}

TEST_F(ConnectionTest, BatchThatDoesNotFitTheQueueIsPostedAsFarAsItGoes) {
  queue_pair_->room = 1;
  start_call(3);
  ASSERT_EQ(queue_pair_->posted.size(), 1U);
  for (std::size_t done = 0; done < 3; ++done) {
    ++queue_pair_->room;
    complete(queue_pair_->posted[done]);
    EXPECT_NE(connection_->pump(Instant{}), Connection::Moved::kNothing);
    ASSERT_EQ(queue_pair_->posted.size(), done + 2) << "three places are exposed, then the Send";
  }
}

// This side was away when the time of the call ended, and for long after.
TEST_F(ConnectionTest, ReplyThatIsHereWhenTheTimeOfItsCallIsOverIsTaken) {
  start_call(0);
  complete(queue_pair_->posted[0]);
  ASSERT_FALSE(queue_pair_->receives.empty());
  const auto receive = queue_pair_->receives.front();
  const MutableBytes arena =
      queue_pair_->regions.at(static_cast<std::uint32_t>(receive.buffers.region));
  xdr::Writer writer(arena.subspan(receive.number * receive.buffers.stride, 52));
  for (const std::uint32_t word : {1U, 1U, 4U, 0U, 0U, 0U, 0U, 1U, 1U, 0U, 0U, 0U, 0U})
    writer.u32(word);
  queue_pair_->completions.push_back({receive.number, rdma::Status::kOk, 52});
  connection_->pump(Instant{} + std::chrono::seconds(65));
  const auto* const event = connection_->engine().event();
  ASSERT_NE(event, nullptr);
  EXPECT_TRUE(std::holds_alternative<engine::ReplyReady>(*event));
  EXPECT_EQ(connection_->engine().counters().timed_out, 0U);
}

// A callback, or a service, may have taken long, and replies that have come since are not read.
TEST_F(ConnectionTest, TimeOfACallIsJudgedByTheLastLook) {
  start_call(0);
  complete(queue_pair_->posted[0]);
  const Instant begun{}, end = begun + std::chrono::seconds(65);
  connection_->pump(end, begun);
  EXPECT_EQ(connection_->engine().event(), nullptr);
  connection_->pump(end, end);
  EXPECT_EQ(connection_->engine().counters().timed_out, 1U);
}

// A server's connection, whose Receives come and go with Calls.
class ReceiveSizes : public testing::Test {
 protected:
  static constexpr std::uint32_t kSmall = 4096, kLarge = 16'384;

  ReceiveSizes() {
    auto made = std::make_unique<FakeQueuePair>();
    queue_pair_ = made.get();
    engine::Options options;
    options.inline_send = options.inline_receive = kSmall;
    options.credits = 2;
    options.versions = {1, 2};
    connection_ = std::move(*Connection::create(std::move(made), engine::Role::kServer, options));
    connection_->pump(Instant{});
  }
  // The peer sends a message of `size` bytes that begins with these words into the oldest Receive.
  void take(std::uint32_t size, std::initializer_list<std::uint32_t> words) {
    const auto receive = queue_pair_->receives.front();
    queue_pair_->receives.pop_front();
    EXPECT_LE(size, receive.buffers.size);
    const MutableBytes arena =
        queue_pair_->regions.at(static_cast<std::uint32_t>(receive.buffers.region));
    const MutableBytes buffer = arena.subspan(receive.number * receive.buffers.stride, size);
    std::ranges::fill(buffer, std::byte{0x5a});
    xdr::Writer writer(buffer);
    for (const std::uint32_t word : words) writer.u32(word);
    queue_pair_->completions.push_back({receive.number, rdma::Status::kOk, size});
    connection_->pump(Instant{});
  }
  // RDMA2_OPTIONAL, INITXCH without any characteristics; the server's answers go out.
  void take_option() {
    take(36, {++xid_, 2, 2, 5, 0, 1, 8, 0, 0});
    complete_posted();
  }
  // The same for a Call; what the engine hands over of it.
  Bytes take_call(std::uint32_t size) {
    // RDMA2_MSG without chunks, direction CALL, then an RPC Call.
    ++xid_;
    take(size, {xid_, 2, 2, 0, 0, 0, 0, 0, xid_, 0});
    const auto* event = connection_->engine().event();
    const auto* received = event != nullptr ? std::get_if<engine::CallReceived>(event) : nullptr;
    EXPECT_NE(received, nullptr);
    if (received == nullptr) return {};
    call_ = received->call;
    const Bytes stream = received->inline_part;
    connection_->engine().drop_event();
    return stream;
  }
  void answer() {
    connection_->engine().responder().reject(call_);
    connection_->pump(Instant{});
    complete_posted();
    while (connection_->engine().event() != nullptr) connection_->engine().drop_event();
  }
  void complete_posted() {
    for (const std::uint64_t id : std::exchange(queue_pair_->posted, {})) {
      queue_pair_->completions.push_back({id, rdma::Status::kOk, 0});
    }
    connection_->pump(Instant{});
  }

  // The Call that shows version 2, an option that shows that the client takes them, and the larger
  // Receives from then on.
  void raise() {
    take_call(kSmall);
    answer();
    take_option();
    ASSERT_TRUE(connection_->engine().option_port().raise_receive_size(kLarge));
    connection_->pump(Instant{});
  }

  std::uint32_t xid_ = 0;
  engine::CallId call_{};
  FakeQueuePair* queue_pair_ = nullptr;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ReceiveSizes, ChangeForReceivesThatArePostedFromThenOn) {
  raise();
  const std::size_t regions = queue_pair_->regions.size();
  std::size_t smaller = queue_pair_->receives.size();
  EXPECT_EQ(connection_->receive_size(), kLarge);
  for (; smaller > 0; --smaller) {
    EXPECT_EQ(queue_pair_->regions.size(), regions) << "some Receives are still in the old one";
    EXPECT_EQ(take_call(kSmall).size(), kSmall - 32);
    answer();
  }
  EXPECT_EQ(queue_pair_->regions.size(), regions - 1) << "none is: its memory has gone";
  const Bytes stream = take_call(kLarge);
  ASSERT_EQ(stream.size(), kLarge - 32);
  EXPECT_EQ(stream.back(), std::byte{0x5a});
}

TEST_F(ReceiveSizes, MessageThatIsBeingReadKeepsItsMemory) {
  take_call(kSmall);
  answer();
  take_option();
  const Bytes stream = take_call(kSmall);
  ASSERT_TRUE(connection_->engine().option_port().raise_receive_size(kLarge));
  connection_->pump(Instant{});
  EXPECT_EQ(stream.back(), std::byte{0x5a});
  answer();
  EXPECT_EQ(queue_pair_->receives.back().buffers.size, kLarge);
  EXPECT_EQ(queue_pair_->receives.front().buffers.size, kSmall);
}

TEST_F(ReceiveSizes, StayWhereThereIsNoMemory) {
  queue_pair_->refuses_memory = true;
  raise();
  EXPECT_EQ(connection_->receive_size(), kSmall);
  take_call(kSmall);
  answer();
  EXPECT_EQ(queue_pair_->receives.back().buffers.size, kSmall);
  EXPECT_EQ(connection_->engine().option_port().characteristics().own().receive_size, kSmall);
}

// Each size that a message or a Receive is still in costs an arena.
TEST(ReceiveMemoryTest, HoldsFewSizesAtATime) {
  FakeQueuePair queue_pair;
  ReceiveMemory memory(queue_pair, 4, 0);
  ASSERT_TRUE(memory.set_size(4096));
  std::uint16_t number = 0;
  memory.posted({&number, 1});
  for (std::uint32_t size = 8192; queue_pair.regions.size() < ReceiveMemory::kEpochsMax;
       size *= 2) {
    ASSERT_TRUE(memory.set_size(size));
    ++number;
    memory.posted({&number, 1});
  }
  EXPECT_FALSE(memory.set_size(65'536));
  number = 0;
  memory.posted({&number, 1});
  EXPECT_EQ(queue_pair.regions.size(), ReceiveMemory::kEpochsMax - 1) << "the oldest has gone";
  EXPECT_TRUE(memory.set_size(65'536));
}

// There is no room for it in any address space.
TEST(ReceiveMemoryTest, SizeThatThereIsNoMemoryForIsRefused) {
  FakeQueuePair queue_pair;
  ReceiveMemory memory(queue_pair, 60'000, 0);
  EXPECT_FALSE(memory.set_size(0xfffff000));
  EXPECT_TRUE(queue_pair.regions.empty());
  EXPECT_TRUE(memory.set_size(4096));
}

}  // namespace
}  // namespace rpcrdma::transport
