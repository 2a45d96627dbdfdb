// The engine over real providers, below the public API: chunks of many segments in any split, which
// a Client of ours never makes but a peer may.
#include <gtest/gtest.h>

#include <chrono>

#include "base/random.h"
#include "rpcrdma/xdr.h"
#include "support/fabric.h"
#include "support/rpc_fixture.h"
#include "transport/connection.h"

namespace rpcrdma::test {
namespace {

using engine::Fragment;
using engine::Lease;
using engine::ResultRoom;

constexpr std::uint64_t kHead = 0;              // 64 bytes: the Call's or reply's head and tail
constexpr std::uint64_t kItem = 4096;           // client: the argument; server: where it lands
constexpr std::uint64_t kResult = 512U << 10U;  // client: the result's places; server: the result
constexpr std::uint64_t kReplyRoom = 900U << 10U;

// Two connected drivers, and memory that is registered with each.
class Transport : public ::testing::TestWithParam<Fabric> {
 protected:
  Transport() : network_(GetParam().make()) {
    auto listener = network_->server_side().listen(network_->listen_address());
    EXPECT_TRUE(listener);
    listener_ = std::move(*listener);
    const auto data = engine::private_data(options_);
    auto connecting = network_->client_side().connect(listener_->address(), data);
    EXPECT_TRUE(connecting);
    client_ = std::move(
        *transport::Connection::create(std::move(*connecting), engine::Role::kClient, options_));
    std::unique_ptr<rdma::Incoming> incoming;
    run_until([&] { return (incoming = listener_->poll_incoming()) != nullptr; });
    auto accepted = network_->server_side().accept(std::move(incoming), data);
    EXPECT_TRUE(accepted);
    server_ = std::move(
        *transport::Connection::create(std::move(*accepted), engine::Role::kServer, options_));
    run_until([&] { return client_->connected() && server_->connected(); });
    client_memory_.resize(1U << 20U, std::byte{0xee});
    server_memory_.resize(1U << 20U, std::byte{0xee});
    client_lease_ = *client_->attach(client_memory_);
    server_lease_ = *server_->attach(server_memory_);
  }
  ~Transport() override { EXPECT_EQ(network_->violations(), std::vector<std::string>{}); }

  void run_until(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      network_->server_side().progress();
      network_->client_side().progress();
      if (client_) client_->pump(network_->client_side().now());
      if (server_) server_->pump(network_->server_side().now());
      if (condition()) return;
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the condition never held";
      network_->wait();
    }
  }
  template <class T>
  T event(transport::Connection& connection) {
    std::array<engine::Event, 1> room;
    std::span<engine::Event> events;
    run_until([&] { return !(events = connection.engine().poll_events(room)).empty(); });
    EXPECT_TRUE(std::holds_alternative<T>(room[0]));
    return std::get<T>(room[0]);
  }

  // Cuts `size` bytes at `offset` of the client's memory into up to 16 runs that lie apart, with
  // gaps.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> split(std::uint32_t size,
                                                             std::uint64_t offset,
                                                             SeededRandom& random) {
    std::vector<std::pair<std::uint64_t, std::uint32_t>> runs;
    while (size > 0) {
      const bool last = runs.size() == 7;
      const auto run =
          last ? size : static_cast<std::uint32_t>(1 + random.below(std::min(size, 20000U)));
      runs.emplace_back(offset, run);
      offset += run + 13;
      size -= run;
    }
    return runs;
  }

  // A Call: a head, the argument in pieces, its padding and a tail.
  std::vector<Fragment> call_stream(std::uint32_t xid, const std::vector<std::byte>& argument,
                                    SeededRandom& random) {
    xdr::Writer head{MutableBytes(client_memory_).first(40)};
    head.u32(xid);
    std::vector<Fragment> stream{{client_lease_, 40, kHead, 0}};
    std::uint32_t done = 0;
    for (const auto& [offset, size] :
         split(static_cast<std::uint32_t>(argument.size()), kItem, random)) {
      std::copy_n(argument.begin() + done, size,
                  client_memory_.begin() + static_cast<std::ptrdiff_t>(offset));
      stream.push_back({client_lease_, size, offset, 1});
      done += size;
    }
    const auto tail = static_cast<std::uint32_t>(xdr::pad_size(argument.size())) + 4;
    stream.push_back({client_lease_, tail, kHead + 40, 0});
    return stream;
  }

  engine::Options options_;
  std::unique_ptr<test::Network> network_;
  std::unique_ptr<rdma::Listener> listener_;
  std::vector<std::byte> client_memory_, server_memory_;
  std::unique_ptr<transport::Connection> client_, server_;
  Lease client_lease_{}, server_lease_{};
};

TEST_P(Transport, ChunksOfManySegmentsInAnySplitArriveWhole) {
  SeededRandom random(17);
  for (std::uint32_t round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const auto argument_size = static_cast<std::uint32_t>(1 + random.below(100000));
    const auto result_size = static_cast<std::uint32_t>(1 + random.below(100000));
    const bool long_reply = random.one_in(3);
    const auto argument = pattern(argument_size, round);
    const auto result = pattern(result_size, round + 1000);
    std::fill(client_memory_.begin(), client_memory_.end(), std::byte{0xee});

    const auto stream = call_stream(round + 1, argument, random);
    std::vector<ResultRoom> rooms;
    const auto places = split(result_size, kResult, random);
    for (const auto& [offset, size] : places) rooms.push_back({client_lease_, size, offset, 1});
    engine::Outgoing call{stream, rooms, result_size + 8000,
                          ResultRoom{client_lease_, 8000, kReplyRoom, 0}};
    const auto started = client_->engine().requester().start_call(
        network_->client_side().now(), Xid{round + 1}, call, options_.call_timeout);
    ASSERT_TRUE(started) << to_string(started.error());

    // The server pulls the argument and answers with the result, inline or by a Long Reply.
    const std::uint32_t head_size = long_reply ? 6000 : 28;
    if (argument_size >= options_.reduce_size_min) {
      const auto wanted = event<engine::MemoryWanted>(*server_);
      EXPECT_EQ(wanted.position, 40U);
      ASSERT_EQ(wanted.size, argument_size);
      server_->engine().responder().lend(wanted.call, server_lease_, kItem);
    }
    const auto received = event<engine::CallReceived>(*server_);
    if (!received.items.empty()) {
      EXPECT_TRUE(std::equal(argument.begin(), argument.end(), server_memory_.begin() + kItem));
    }
    xdr::Writer reply_head{MutableBytes(server_memory_).first(64)};
    reply_head.u32(round + 1);
    std::ranges::copy(result, server_memory_.begin() + static_cast<std::ptrdiff_t>(kResult));
    const auto reply_tail = static_cast<std::uint32_t>(xdr::pad_size(result_size));
    const Fragment reply_stream[] = {{server_lease_, head_size, kHead, 0},
                                     {server_lease_, result_size, kResult, 1},
                                     {server_lease_, reply_tail, kHead + head_size, 0}};
    engine::Outgoing reply;
    reply.stream = reply_stream;
    server_->engine().responder().start_reply(received.call, reply);

    const auto ready = event<engine::ReplyReady>(*client_);
    EXPECT_EQ(ready.in_reply_chunk, long_reply ? head_size : 0U);
    ASSERT_EQ(ready.results_written.size(), 1U);
    ASSERT_EQ(ready.results_written[0], result_size);
    std::vector<std::byte> got;
    for (const auto& [offset, size] : places) {
      const auto at = client_memory_.begin() + static_cast<std::ptrdiff_t>(offset);
      got.insert(got.end(), at, at + size);
      EXPECT_EQ(*(at + size), std::byte{0xee}) << "written beyond a segment";
    }
    EXPECT_EQ(got, result);
    client_->engine().requester().release(ready.call);
    EXPECT_TRUE(event<engine::CallDone>(*server_).replied);
  }
  EXPECT_GT(client_->engine().counters().nomsg_replies, 5U);
}

INSTANTIATE_TEST_SUITE_P(Providers, Transport,
                         ::testing::Values(Fabric{"Sim", [] { return test::make_sim(3); }},
                                           Fabric{"Siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

}  // namespace
}  // namespace rpcrdma::test
