// A connection that keeps the replies of Serving, for tests of one side without a transport.
#ifndef RPCRDMA_RPC_SERVE_SERVING_FOR_TEST_H_
#define RPCRDMA_RPC_SERVE_SERVING_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncrpc/message.h"
#include "rpc/answer_queue.h"
#include "rpc/serve/serving.h"

namespace rpcrdma::rpc {

using MessageForTest = std::vector<std::byte>;

inline MessageForTest encode_for_test(const oncrpc::CallHeader& header,
                                      std::string_view arguments = {}) {
  MessageForTest message(oncrpc::call_header_size(header) + xdr::padded_memory(arguments.size()));
  xdr::Writer writer(message);
  oncrpc::encode_call(header, writer);
  writer.opaque_fixed(std::as_bytes(std::span(arguments)));
  return message;
}

// Keeps deliveries until take(), as the owner of connections does.
class MailboxForTest final : public Mailbox {
 public:
  void deliver(IncomingCall& call) override {
    queue_.deliver(call, [this] { ++delivered; });
  }
  bool in_turn_of(const ReplyCarrier& carrier) const noexcept override {
    return in_turn == &carrier;
  }
  Expected<Client, Error> client_of(Session& /*session*/,
                                    const BackwardOptions& /*options*/) override {
    return Unexpected<Error>(Error{});
  }
  void set_disconnected(BackwardCaller& /*caller*/, bool /*disconnected*/) override {}

  void take(Instant now = {}) {
    queue_.take_all([now](IncomingCall& call) { call.serving().handle_delivered(call, now); });
  }
  void drop_steps() {
    queue_.take_all([](IncomingCall& call) { call.serving().drop_step(call); });
  }

  const ReplyCarrier* in_turn = nullptr;
  int delivered = 0;

 private:
  AnswerQueue queue_;
};

class CallForTest final : public IncomingCall {
 public:
  CallForTest(Serving& serving, MessageForTest of_call)
      : IncomingCall(serving), message(std::move(of_call)) {}
  void end() { end_call(); }
  Bytes stream() const { return results_buffer_; }
  Bytes written() const { return Bytes(results_buffer_).subspan(kReplyRoom, results_.size()); }

  MessageForTest message;
  std::vector<MessageForTest> memory;
};

// A connection over which a test receives calls, and sees their replies.
class CarrierForTest final : public ReplyCarrier {
 public:
  struct Reply {
    MessageForTest bytes;
    oncrpc::ReplyHeader header;
    std::string results;
  };

  CarrierForTest(const oncrpc::ServiceRegistry& registry, ReplyCache& cache,
                 MailboxForTest& of_owner, std::string peer = "10.0.0.1:700",
                 CallMeter* meter = nullptr)
      : serving(*this, registry, cache, of_owner, meter),
        mailbox(of_owner),
        peer_(std::move(peer)) {}

  // Serves a Call as a transport does, in the turn of this connection.
  CallForTest& receive(MessageForTest message) {
    calls_.push_back(std::make_unique<CallForTest>(serving, std::move(message)));
    CallForTest& call = *calls_.back();
    serving.note_arrival(call);
    mailbox.in_turn = this;
    if (serving.admit(call, call.message)) handle_admitted(call);
    mailbox.in_turn = nullptr;
    return call;
  }
  bool retry_duplicates() {
    mailbox.in_turn = this;
    const bool moved = serving.retry_duplicates();
    mailbox.in_turn = nullptr;
    return moved;
  }
  // The results, the status and the denial of the only reply.
  std::string results() const {
    return replies.size() == 1 ? replies.front().results : "not one reply";
  }
  std::optional<AcceptStatus> status() const {
    if (replies.size() != 1) return std::nullopt;
    const auto* accepted = std::get_if<oncrpc::Accepted>(&replies.front().header.body);
    return accepted != nullptr ? std::optional(accepted->status) : std::nullopt;
  }
  std::optional<AuthStatus> denial() const {
    if (replies.size() != 1) return std::nullopt;
    const auto* denied = std::get_if<oncrpc::AuthError>(&replies.front().header.body);
    return denied != nullptr ? std::optional(denied->why) : std::nullopt;
  }

  std::string_view peer_address() const noexcept override { return peer_; }
  bool ended() const noexcept override { return has_ended; }
  MutableBytes room(IncomingCall& call, std::size_t size) override { return borrow(call, size); }
  MutableBytes borrow(IncomingCall& call, std::size_t size) override {
    if (size > room_max) return {};
    return static_cast<CallForTest&>(call).memory.emplace_back(size);
  }
  bool send(IncomingCall& of, std::size_t start, const WrappedResults& wrapped) override {
    if (std::exchange(refuses_next, false)) return false;
    const auto& call = static_cast<const CallForTest&>(of);
    const Bytes header = call.stream().subspan(start, kReplyRoom - start);
    MessageForTest whole(header.begin(), header.end());
    const Bytes results = wrapped.replaced ? *wrapped.replaced : call.written();
    whole.insert(whole.end(), results.begin(), results.end());
    whole.insert(whole.end(), wrapped.after.begin(), wrapped.after.end());
    Reply& reply = replies.emplace_back();
    reply.bytes = std::move(whole);
    xdr::Reader reader(reply.bytes);
    const auto decoded = oncrpc::decode_reply(reader);
    EXPECT_TRUE(decoded.has_value());
    if (decoded) reply.header = *decoded;
    const Bytes rest = reader.rest();
    reply.results.assign(reinterpret_cast<const char*>(rest.data()), rest.size());
    return true;
  }
  void send_plain(IncomingCall& /*call*/, const oncrpc::ReplyHeader& header) override {
    replies.push_back({{}, header, {}});
  }
  void give_up(IncomingCall& call, NoReply why) override {
    given_up.push_back(why);
    static_cast<CallForTest&>(call).end();
  }
  void handle_admitted(IncomingCall& of) override {
    auto& call = static_cast<CallForTest&>(of);
    ++admitted;
    call.set_arguments(call.message, placed);
    serving.serve(call, placed);
  }
  void want_turn() noexcept override { ++turns_wanted; }

  Serving serving;
  MailboxForTest& mailbox;
  std::vector<Reply> replies;
  std::vector<MessageReader::Placed> placed;  // with each call
  std::vector<NoReply> given_up;
  int admitted = 0;
  int turns_wanted = 0;
  bool has_ended = false;
  bool refuses_next = false;         // the next reply with results
  std::size_t room_max = 1U << 16U;  // bytes that it lends for one item

 private:
  const std::string peer_;
  std::vector<std::unique_ptr<CallForTest>> calls_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SERVING_FOR_TEST_H_
