#include "engine/connection.h"

#include <algorithm>

#include "base/assert.h"
#include "engine/rfc5666/profile.h"

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

bool is_message(const Received& message) noexcept {
  return message.kind == Kind::kMessage || message.kind == Kind::kNoMessage;
}

ReceiveLedger receive_ledger(Role role, const Options& options) {
  const std::uint32_t granted_max = responder_options(role, options).credits;
  const bool grants_less = role == Role::kServer && options.credits_at_first > 0;
  const std::uint32_t granted =
      grants_less ? std::min(granted_max, options.credits_at_first) : granted_max;
  return {Connection::receive_count(role, options), granted_max, granted,
          OptionPort::is_needed(options) ? OptionPort::kReceives : 0};
}

// Calls that may have to wait for an RDMA Read at a time.
std::size_t reader_count(Role role, const Options& options) noexcept {
  return Connection::made_slot_count(role, options) +
         Connection::answered_slot_count(role, options);
}

}  // namespace

std::array<std::byte, wire::kPrivateDataSize> private_data(const Options& options) noexcept {
  return wire::encode(wire::PrivateData{options.remote_invalidation, longest_send(options),
                                        options.inline_receive});
}

std::uint32_t send_size_of_peer(Bytes private_data) noexcept {
  const auto peer = wire::find_private_data(private_data);
  return peer ? peer->send_size : wire::kInlineSizeDefault;
}

LinkParameters negotiate(const Options& options, Bytes peer_private_data,
                         std::uint32_t reads_in_flight_max) noexcept {
  if (rfc5666::is_chosen(options)) return rfc5666::link_at_first(reads_in_flight_max);
  LinkParameters result;
  result.reads_in_flight_max = reads_in_flight_max;
  const auto peer = wire::find_private_data(peer_private_data);
  const std::uint32_t peer_receive = peer ? peer->receive_size : wire::kInlineSizeDefault;
  const std::uint32_t peer_send = send_size_of_peer(peer_private_data);
  // These are our own sizes as the private data announced them: the peer counts on no more.
  const auto own = wire::find_private_data(private_data(options));
  result.inline_send = std::min({own->send_size, send_size(options, peer_receive), peer_receive});
  result.inline_receive = std::min(own->receive_size, peer_send);
  result.remote_invalidation = peer && peer->takes_invalidation && own->takes_invalidation;
  return result;
}

Connection::Connection(Role role, const Options& options, MutableBytes headers, Lease region)
    : role_(role),
      options_(options),
      is_bidirectional_(options.backward_calls > 0),
      takes_padding_(rfc5666::is_chosen(responder_options(role, options))),
      shared_(options,
              2 * (made_slot_count(role, options) + answered_slot_count(role, options)) + 16,
              reader_count(role, options), receive_ledger(role, options)),
      requester_(requester_options(role, options), shared_, HeaderArena(headers, region)),
      responder_(responder_options(role, options), shared_,
                 HeaderArena(headers, region, made_slot_count(role, options))),
      option_port_(role, options, shared_,
                   HeaderArena(headers, region,
                               made_slot_count(role, options) + answered_slot_count(role, options)),
                   OptionPort::is_needed(options) ? receive_count(role, options) : 0) {
  RPCRDMA_ASSERT(options.credits > 0, "a connection without credits can do nothing");
  RPCRDMA_ASSERT(options.inline_send >= 1024 && options.inline_receive >= 1024,
                 "RFC 8166 wants inline thresholds of at least 1024 bytes");
  RPCRDMA_ASSERT(options.versions.low >= 1 && options.versions.low <= options.versions.high &&
                     options.versions.high <= (rfc5666::is_chosen(options) ? 1U : 2U),
                 "there are versions 1 and 2, and RFC 5666 is version 1");
  RPCRDMA_ASSERT(headers.size() >= header_arena_size(role, options),
                 "the header arena is too small");
}

std::size_t Connection::made_slot_count(Role role, const Options& options) noexcept {
  return requester_options(role, options).calls_max;
}

std::size_t Connection::answered_slot_count(Role role, const Options& options) noexcept {
  const bool has_any = role == Role::kServer || options.backward_calls > 0;
  return has_any ? Responder::slot_count(responder_options(role, options)) : 0;
}

std::size_t Connection::receive_count(Role role, const Options& options) noexcept {
  const std::size_t for_dones = role == Role::kServer ? rfc5666::exposed_replies_max(options) : 0;
  const std::size_t for_options = OptionPort::is_needed(options) ? OptionPort::kReceives : 0;
  return std::size_t{options.credits} + options.backward_calls + for_dones + for_options;
}

std::size_t Connection::header_arena_size(Role role, const Options& options) noexcept {
  const std::size_t for_options = OptionPort::is_needed(options) ? OptionPort::kPlaces : 0;
  return (made_slot_count(role, options) + answered_slot_count(role, options) + for_options) *
         HeaderArena::kPlaceSize;
}

void Connection::handle_connected(const LinkParameters& link, bool may_invalidate) {
  RPCRDMA_ASSERT(!shared_.connected && !ended_, "connected twice");
  shared_.connected = true;
  configure(link);
  option_port_.handle_connected(shared_.link_of(Dialect::kV2), may_invalidate);
}

void Connection::configure(const LinkParameters& link) {
  shared_.is_offering = role_ == Role::kClient && options_.versions.high == 2;
  LinkParameters agreed = link;
  agreed.chunks = role_ == Role::kClient;  // backward Calls have none, unless the client says so
  shared_.set_links(agreed);
  if (shared_.is_offering) shared_.receives.post_reserve();
  shared_.reads.set_max(link.reads_in_flight_max);
}

void Connection::handle_received(Instant now, ReceiveId receive, Bytes bytes,
                                 std::optional<SteeringTag> invalidated) {
  RPCRDMA_ASSERT(shared_.receives.posted() > 0, "a message without a posted Receive");
  shared_.receives.arrived();
  ++shared_.counters.messages_received;
  if (ended_) return shared_.receives.repost(receive);
  if (invalidated && role_ == Role::kServer) {
    shared_.give_up(GivenUp::kBadInvalidation);  // we have advertised nothing: RFC 8797 §4.1
    return shared_.receives.repost(receive);
  }
  const Received message = shared_.decode_any(bytes);
  if (message.kind == Kind::kTooShort && !invalidated) {
    ++shared_.counters.short_message_count;
    return shared_.receives.repost(receive);
  }
  const bool is_for_requester =
      invalidated || !is_bidirectional_ ? role_ == Role::kClient : this->is_for_requester(message);
  if (message.dialect == Dialect::kV2 && !invalidated && option_port_.takes(message) &&
      (is_option(message.kind) || !requester_.waits_for(message.xid))) [[unlikely]] {
    option_port_.handle_received(receive, message);
  } else if (is_for_requester) {
    requester_.handle_received(now, receive, message, invalidated);
  } else {
    // A server's own Calls are in the version of the client's newest one; those that are under way
    // were planned for the one before.
    if (message.dialect != shared_.link.dialect && role_ == Role::kServer && is_message(message) &&
        requester_.calls_in_flight() == 0) [[unlikely]] {
      shared_.speak(message.dialect);
    }
    responder_.handle_received(receive, message, bytes);
  }
  if (message.dialect == Dialect::kV2 && !shared_.is_offering && !is_error(message.kind))
      [[unlikely]] {
    shared_.receives.post_reserve();
    if (role_ == Role::kClient) option_port_.announce(message.xid);  // whose Call is over
  }
}

// The header of version 1 has no direction: the RPC message behind it has one (RFC 8167 §5.3).
// Errors of version 2 have none either. A message without a direction belongs to the half in which
// this side mostly works, except for an error that answers a backward Call.
bool Connection::is_for_requester(const Received& message) {
  const bool is_padded = message.kind == Kind::kPadded && !takes_padding_;
  const Direction direction =
      is_padded ? Direction::kUnknown : direction_of(message.dialect, message);
  if (role_ == Role::kClient) return direction != Direction::kCall;
  return direction == Direction::kReply ||
         (is_error(message.kind) && requester_.waits_for(message.xid));
}

void Connection::handle_done(const Completion& done) {
  const WorkName name = to_name(WorkId{done.id});
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
    case WorkKind::kOptionSend:
      return option_port_.handle_done(name);
  }
}

void Connection::handle_timeout(Instant now) {
  requester_.handle_timeout(now);
  responder_.handle_timeout(now);
  option_port_.handle_timeout(now);
}

Deadline Connection::poll_timeout() const {
  return earlier(earlier(requester_.poll_timeout(), responder_.poll_timeout()),
                 option_port_.poll_timeout());
}

void Connection::handle_disconnected(const std::optional<RefusedWrite>& refused) {
  if (ended_) return;
  ended_ = true;
  shared_.connected = false;
  if (refused) responder_.handle_refused_write(*refused);
  requester_.handle_disconnected();
  responder_.handle_disconnected();
  option_port_.handle_disconnected();
}

std::span<ReceiveId> Connection::poll_receives(std::span<ReceiveId> room) {
  if (ended_) return {};
  return shared_.receives.poll_to_post(room);
}

std::span<ReceiveId> Connection::poll_unused_receives(std::span<ReceiveId> room) {
  return room.first(shared_.receives.poll_unused(room, ended_));
}

std::span<work::Request> Connection::poll_work(std::span<work::Request> room,
                                               std::span<Slices> slices) {
  if (ended_ || !shared_.receives.all_posted()) return {};
  WorkRoom work(room, slices);
  if (option_port_.is_busy()) [[unlikely]] {  // first: Calls behind an announcement count on it
    const auto lower = option_port_.waits_to_lower();
    option_port_.poll_work(work, role_ == Role::kClient ? &requester_.credits() : nullptr,
                           !lower || (!responder_.has_unsent() && !requester_.sends_above(*lower)));
  }
  requester_.poll_work(work);
  responder_.poll_work(work);
  return room.first(work.used());
}

std::span<Event> Connection::poll_events(std::span<Event> room) {
  std::size_t used = 0;
  while (used < room.size() && !shared_.events.empty()) room[used++] = shared_.events.pop();
  return room.first(used);
}

}  // namespace rpcrdma::engine
