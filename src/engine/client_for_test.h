// The client's side of a connection, whose server the tests play.
#ifndef RPCRDMA_ENGINE_CLIENT_FOR_TEST_H_
#define RPCRDMA_ENGINE_CLIENT_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/endpoint_for_test.h"

namespace rpcrdma::engine {

class Client : public testing::Test {
 protected:
  explicit Client(const Options& options = small()) : client(Role::kClient, options) {}

  Expected<CallId, StartError> start_null(std::uint32_t xid,
                                          std::chrono::nanoseconds timeout = kTimeout) {
    const Fragment run{Lease{1}, 40, 0, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = 100;
    auto id = client.engine.requester().start_call(client.now, Xid{xid}, call, timeout);
    client.drain();
    return id;
  }
  // With a Read chunk of two segments, a Write chunk of 8192 bytes and a Reply chunk of 9000.
  CallId start_with_chunks(std::uint32_t xid) {
    const Fragment stream[] = {
        {Lease{1}, 40, 0, 0}, {Lease{2}, 3000, 0, 1}, {Lease{3}, 2000, 0, 1}};
    const ResultRoom room{Lease{4}, 8192, 0, 1};
    Outgoing call{stream, {&room, 1}, 8192 + 8000, ResultRoom{Lease{5}, 9000, 0, 0}};
    auto id = client.engine.requester().start_call(client.now, Xid{xid}, call, kTimeout);
    EXPECT_TRUE(id);
    client.drain();
    last_call = *id;
    return *id;
  }
  void answer(std::uint32_t xid, std::uint32_t credits = 4, const wire::ChunkLists& lists = {},
              wire::v1::Body body = wire::v1::Msg{}, std::size_t payload = 24,
              std::optional<SteeringTag> invalidated = std::nullopt) {
    client.receive(
        message(wire::v1::Header{Xid{xid}, 1, credits, body}, lists, payload, RpcType::kReply),
        invalidated);
  }
  std::uint32_t sent() {
    std::uint32_t count = 0;
    while (const auto send = client.take_action<PostSend>()) {
      client.done(send->id);
      ++count;
    }
    return count;
  }
  // Brings a grant, as the first reply does.
  void grant(std::uint32_t credits) {
    ASSERT_TRUE(start_null(1000));
    sent();
    end(1000, credits);
  }
  // Time limits pass until one has an effect.
  void time_out() {
    while (client.events.empty() && client.actions.empty()) {
      ASSERT_TRUE(client.engine.poll_timeout());
      client.now = *client.engine.poll_timeout();
      client.engine.handle_timeout(client.now);
      client.drain();
    }
  }
  // Ends a call by its reply and gives its Receive back.
  void end(std::uint32_t xid, std::uint32_t credits = 4) {
    answer(xid, credits);
    const auto reply = client.take_event<ReplyReady>();
    ASSERT_TRUE(reply);
    client.engine.requester().release(reply->call);
    client.drain();
  }
  Endpoint client;
  std::optional<CallId> last_call;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CLIENT_FOR_TEST_H_
