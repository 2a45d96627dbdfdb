#include "engine/connection.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::engine {
namespace {

// The half that makes a server's Calls, or answers a client's: backward ones. Without any it gets
// no memory.
Options backward_options(Options options) {
  options.calls_max = options.credits = options.backward_calls;
  options.inline_only = true;
  options.reduce = options.remote_invalidation = false;
  options.profile = Profile::kRfc8166;  // there are no chunks, so there is no other way
  return options;
}
Options requester_options(Role role, const Options& options) {
  return role == Role::kServer ? backward_options(options) : options;
}
Options responder_options(Role role, const Options& options) {
  return role == Role::kClient ? backward_options(options) : options;
}

}  // namespace

std::array<std::byte, wire::kPrivateDataSize> private_data(const Options& options) noexcept {
  return wire::encode(
      wire::PrivateData{options.remote_invalidation, options.inline_send, options.inline_receive});
}

Negotiated negotiate(const Options& options, Bytes peer_private_data,
                     std::uint32_t reads_in_flight_max) noexcept {
  Negotiated result;
  if (options.profile == Profile::kRfc5666) {
    // RFC 5666 §6: what holds until the Connection Configuration Protocol has said more.
    result.reads_in_flight_max = std::min(reads_in_flight_max, result.reads_in_flight_max);
    return result;
  }
  result.reads_in_flight_max = reads_in_flight_max;
  const auto peer = wire::find_private_data(peer_private_data);
  const std::uint32_t peer_receive = peer ? peer->receive_size : wire::kInlineSizeDefault;
  const std::uint32_t peer_send = peer ? peer->send_size : wire::kInlineSizeDefault;
  // Our own sizes as the peer was told them: it counts on no more.
  const auto own = wire::find_private_data(private_data(options));
  result.inline_send = std::min(own->send_size, peer_receive);
  result.inline_receive = std::min(own->receive_size, peer_send);
  result.remote_invalidation = peer && peer->takes_invalidation && own->takes_invalidation;
  return result;
}

Connection::Connection(Role role, const Options& options, MutableBytes headers)
    : role_(role),
      is_bidirectional_(options.backward_calls > 0),
      outbox_(2 * (made_slot_count(role, options) + answered_slot_count(role, options)) + 16,
              receive_count(role, options)),
      requester_(requester_options(role, options), outbox_, HeaderArena(headers)),
      responder_(responder_options(role, options), outbox_, HeaderArena(headers),
                 made_slot_count(role, options)) {
  RPCRDMA_ASSERT(options.credits > 0, "a connection without credits can do nothing");
  RPCRDMA_ASSERT(options.inline_send >= 1024 && options.inline_receive >= 1024,
                 "RFC 8166 wants inline thresholds of at least 1024 bytes");
  RPCRDMA_ASSERT(headers.size() >= header_arena_size(role, options),
                 "the header arena is too small");
  std::size_t withheld = 0;
  if (role == Role::kServer && options.credits_at_first > 0) {
    withheld = options.credits - std::min(options.credits, options.credits_at_first);
  }
  for (std::size_t i = 0; i < receive_count(role, options); ++i) {
    const ReceiveId receive{static_cast<std::uint16_t>(i)};
    if (i < withheld) {
      responder_.withhold(receive);
    } else {
      outbox_.repost(receive);
    }
  }
  outbox_.receives_for_calls = responder_.credits();
}

std::size_t Connection::made_slot_count(Role role, const Options& options) noexcept {
  return requester_options(role, options).calls_max;
}

std::size_t Connection::answered_slot_count(Role role, const Options& options) noexcept {
  const bool has_any = role == Role::kServer || options.backward_calls > 0;
  return has_any ? Responder::slot_count(responder_options(role, options)) : 0;
}

std::size_t Connection::receive_count(Role role, const Options& options) noexcept {
  const std::size_t for_dones = role == Role::kServer ? Responder::exposed_replies_max(options) : 0;
  return std::size_t{options.credits} + options.backward_calls + for_dones;
}

std::size_t Connection::header_arena_size(Role role, const Options& options) noexcept {
  return (made_slot_count(role, options) + answered_slot_count(role, options)) *
         HeaderArena::kPlaceSize;
}

Expected<CallId, StartError> Connection::start_call(Instant now, Xid xid, const Outgoing& call,
                                                    std::chrono::nanoseconds timeout) {
  return requester_.start_call(now, xid, call, timeout);
}

void Connection::cancel(Instant now, CallId call) {
  requester_.cancel(now, call);
}
void Connection::release(CallId call) {
  requester_.release(call);
}

void Connection::start_reply(CallId call, const Outgoing& reply) {
  responder_.start_reply(call, reply);
}
void Connection::reject(CallId call) {
  responder_.reject(call);
}
void Connection::drop(CallId call) {
  responder_.drop(call);
}
void Connection::set_credits(std::uint32_t credits) {
  responder_.set_credits(credits);
}
void Connection::restart(CallId call) {
  responder_.restart(call);
}
void Connection::lend(CallId call, Lease memory, std::uint64_t offset) {
  responder_.lend(call, memory, offset);
}

void Connection::handle_connected(const Negotiated& negotiated) {
  RPCRDMA_ASSERT(!outbox_.connected && !ended_, "connected twice");
  negotiated_ = negotiated;
  outbox_.connected = true;
  requester_.handle_connected(negotiated);
  responder_.handle_connected(negotiated);
}

void Connection::handle_received(Instant now, ReceiveId receive, Bytes message,
                                 std::optional<SteeringTag> invalidated) {
  RPCRDMA_ASSERT(outbox_.receives_posted > 0, "a message without a posted Receive");
  --outbox_.receives_posted;
  ++outbox_.counters.messages_received;
  if (ended_) return outbox_.repost(receive);
  if (invalidated && role_ == Role::kServer) {
    outbox_.disconnect = true;  // we have advertised nothing: RFC 8797 §4.1
    return outbox_.repost(receive);
  }
  const bool is_for_requester =
      invalidated || !is_bidirectional_ ? role_ == Role::kClient : this->is_for_requester(message);
  if (is_for_requester) {
    requester_.handle_received(now, receive, message, invalidated);
  } else {
    responder_.handle_received(receive, message);
  }
}

// The header does not say the direction of its message: the RPC message behind it does (RFC 8167
// §5.3). What has none belongs to the direction in which this side mostly works, but for an error
// that answers a backward Call.
bool Connection::is_for_requester(Bytes message) {
  const auto type = responder_.rpc_message_type(message);
  if (role_ == Role::kClient) return type != RpcMessageType::kCall;
  return type == RpcMessageType::kReply || requester_.is_error_for_call(message);
}

void Connection::handle_done(const WorkDone& done) {
  const WorkName name = to_name(done.id);
  switch (name.kind) {
    case WorkKind::kCallSend:
    case WorkKind::kExpose:
    case WorkKind::kRevoke:
    case WorkKind::kPull:
    case WorkKind::kDoneSend:
      return requester_.handle_done(done, name);
    case WorkKind::kRead:
    case WorkKind::kWrite:
    case WorkKind::kReplySend:
    case WorkKind::kReplyExpose:
    case WorkKind::kReplyRevoke:
      return responder_.handle_done(done, name);
  }
}

void Connection::handle_timeout(Instant now) {
  requester_.handle_timeout(now);
  responder_.handle_timeout(now);
}

std::optional<Instant> Connection::poll_timeout() const {
  const auto call = requester_.poll_timeout();
  const auto peer = responder_.poll_timeout();
  if (!call || !peer) return call ? call : peer;
  return std::min(*call, *peer);
}

void Connection::configure(const Negotiated& negotiated) {
  negotiated_ = negotiated;
  requester_.handle_connected(negotiated);
  responder_.handle_connected(negotiated);
}

void Connection::handle_disconnected(const std::optional<wire::Segment>& refused_write) {
  if (ended_) return;
  ended_ = true;
  outbox_.connected = false;
  if (refused_write) responder_.handle_refused_write(*refused_write);
  requester_.handle_disconnected();
  responder_.handle_disconnected();
}

std::span<ReceiveId> Connection::poll_receives(std::span<ReceiveId> room) {
  if (ended_) return {};
  const std::size_t count = std::min(room.size(), outbox_.to_post.size());
  for (ReceiveId& receive : room.first(count)) receive = outbox_.to_post.pop();
  outbox_.receives_posted += static_cast<std::uint32_t>(count);
  return room.first(count);
}

std::span<ReceiveId> Connection::poll_unused_receives(std::span<ReceiveId> room) {
  std::size_t count = responder_.poll_withheld(room);
  while (ended_ && count < room.size() && !outbox_.to_post.empty()) {
    room[count++] = outbox_.to_post.pop();
  }
  return room.first(count);
}

std::span<Action> Connection::poll_actions(std::span<Action> room) {
  if (ended_) return {};
  std::size_t used = 0;
  if (outbox_.to_post.empty()) {
    used += requester_.poll_actions(room);
    used += responder_.poll_actions(room.subspan(used));
  }
  if (outbox_.disconnect && used < room.size()) {
    outbox_.disconnect = false;
    room[used++] = Disconnect{};
  }
  return room.first(used);
}

std::span<Event> Connection::poll_events(std::span<Event> room) {
  std::size_t used = 0;
  while (used < room.size() && !outbox_.events.empty()) room[used++] = outbox_.events.pop();
  return room.first(used);
}

}  // namespace rpcrdma::engine
