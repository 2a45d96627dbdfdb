#include "engine/v2/option_port.h"

#include <algorithm>
#include <span>
#include <variant>

#include "base/assert.h"

namespace rpcrdma::engine {

namespace v2 = wire::v2;
using v2::Operation;

namespace {

// The elements of a set that is given as bits.
class Elements {
 public:
  explicit Elements(std::uint64_t bits) noexcept {
    for (std::uint32_t i = 0; i < v2::kSubsetMax; ++i) {
      if ((bits >> i & 1U) != 0) all_[count_++] = i;
    }
  }
  std::span<const std::uint32_t> span() const noexcept { return std::span(all_).first(count_); }

 private:
  std::array<std::uint32_t, v2::kSubsetMax> all_;
  std::size_t count_ = 0;
};

std::uint32_t write_response(const ChangeAnswer& answer, MutableBytes info) noexcept {
  xdr::Writer writer(info);
  v2::write_response(writer, Elements(answer.done).span(), Elements(answer.rejected).span(),
                     Elements(answer.pending).span());
  RPCRDMA_ASSERT(writer.ok(), "the information of an option is longer than its room");
  return static_cast<std::uint32_t>(writer.position());
}

}  // namespace

OptionPort::OptionPort(Role role, const Options& options, Shared& shared, HeaderArena headers,
                       std::size_t receives)
    : shared_(shared),
      headers_(headers),
      characteristics_(role, options),
      is_server_(role == Role::kServer),
      messages_(receives == 0 ? 0 : receives + 1),
      peer_(options.peer_timeout),
      answer_timeout_(options.offer_timeout),
      requested_(std::max(role == Role::kClient ? options.credits : options.backward_calls, 1U)) {}

void OptionPort::handle_connected(const LinkParameters& link, bool may_invalidate) noexcept {
  link_ = link;
  may_invalidate_ = may_invalidate;
  shared_.takes_backward_chunks = characteristics_.handle_connected(link.reads_in_flight_max);
}

void OptionPort::announce(Xid xid) {
  if (announced_) return;
  announced_ = xid;
  // Away from the XIDs of Calls: an error names no more than an XID.
  last_xid_ = ~static_cast<std::uint32_t>(xid);
  has_announcement_ = is_used_ = true;
}

bool OptionPort::ask(const SmallValue& want) {
  if (!announced_ || !shared_.connected || !requests_.ask(want)) return false;
  characteristics_.handle_asked(want);
  update_link();
  return true;
}

void OptionPort::handle_resized(bool succeeded) noexcept {
  characteristics_.own_size().handle_resized(
      succeeded, shared_.counters.messages_received + shared_.receives.posted());
}

// --- What comes --------------------------------------------------------------------------------

bool OptionPort::takes(const Received& message) const noexcept {
  if (is_option(message.kind)) return true;
  const bool may_refuse = message.kind == Kind::kErrorOption || message.kind == Kind::kErrorChunk;
  return may_refuse && (announced_ == message.xid || updated_ == message.xid ||
                        (asked_ && asked_->xid == message.xid));
}

void OptionPort::handle_received(ReceiveId receive, const Received& message) {
  is_used_ = true;
  if (is_option(message.kind)) {
    ++shared_.counters.options_received;
    return handle_option(receive, message);
  }
  // The peer does not have characteristics, or not this one: the defaults hold.
  if (updated_ == message.xid) updated_.reset();
  handle_answered(message.xid, nullptr);
  shared_.drop(receive, shared_.counters.err_received);
}

void OptionPort::handle_option(ReceiveId receive, const Received& message) {
  const auto answer_by = [&](Kind kind, const ChangeAnswer& answer = {}) {
    messages_.push({kind, message.xid, receive, Operation::kRespXch, answer});
  };
  peer_is_mute_ = false;
  if (message.kind == Kind::kBadOption) return answer_by(Kind::kErrorChunk);
  const auto option = v2::decode_option(message.option, message.payload);
  if (!option) return answer_by(Kind::kErrorChunk);
  if (std::holds_alternative<v2::UnknownOption>(*option)) return answer_by(Kind::kErrorOption);
  // The XID is away from those of the client's Calls.
  if (is_server_) announce(Xid{~static_cast<std::uint32_t>(message.xid)});
  if (const auto* request = std::get_if<v2::ReqXch>(&*option)) {
    const auto answer = characteristics_.judge(*request);
    update_link();
    return answer ? answer_by(Kind::kOption, *answer) : answer_by(Kind::kErrorChunk);
  }
  bool is_good = true;
  if (const auto* init = std::get_if<v2::InitXch>(&*option)) {
    is_good = characteristics_.hear(*init);
  } else if (const auto* update = std::get_if<v2::UpdXch>(&*option)) {
    is_good = characteristics_.hear(*update);
    if (is_good) requests_.updated(update->now, update->clears_pending);
  } else {
    handle_answered(message.xid, std::get_if<v2::RespXch>(&*option));
  }
  if (!is_good) return answer_by(Kind::kErrorChunk);
  update_link();
  shared_.receives.repost(receive);
}

// The peer has answered our REQXCH, or (without an answer) refused it. Others are dropped.
void OptionPort::handle_answered(Xid xid, const v2::RespXch* answer) {
  if (!asked_ || asked_->xid != xid) return;
  if (asked_->is_behind_update) updated_.reset();
  const bool is_request = asked_->is_request;
  asked_.reset();
  shared_.option_credits.request_ended(true);
  if (!is_request) return;
  if (answer == nullptr) {
    requests_.refused();
  } else if (const auto now = requests_.answered(*answer)) {
    characteristics_.handle_granted(*now);
  }
  update_link();
}

void OptionPort::update_link() noexcept {
  if (!requests_.has(static_cast<std::uint32_t>(v2::CharacteristicId::kReceiveSize))) {
    characteristics_.handle_size_settled();
  }
  shared_.update_v2(characteristics_.link(link_, may_invalidate_));
}

void OptionPort::handle_done(const WorkName& name) {
  RPCRDMA_ASSERT(name.slot < kPlaces && in_use_[name.slot],
                 "a completion for work that was not posted");
  in_use_[name.slot] = false;
  peer_.done(now_, shared_.connected);
}

void OptionPort::handle_timeout(Instant now) {
  // A peer that takes no answers keeps their Receives.
  if (peer_.expired(now)) shared_.give_up(GivenUp::kUnserved);
  if (!asked_ || asked_->deadline > now) return;
  peer_is_mute_ = true;
  if (asked_->is_request) {
    const bool is_size =
        requests_.asked_id() == static_cast<std::uint32_t>(v2::CharacteristicId::kReceiveSize);
    if (is_size) characteristics_.handle_no_answer();
    requests_.refused();
  }
  asked_.reset();
  shared_.option_credits.request_ended(false);
  update_link();
}

void OptionPort::handle_disconnected() {
  peer_.stop();
  asked_.reset();
  has_announcement_ = false;
  requests_.lost();
  while (!messages_.empty()) {
    const Message message = messages_.pop();
    if (message.receive) shared_.receives.repost(*message.receive);
  }
}

// --- What goes out -----------------------------------------------------------------------------

std::optional<std::uint32_t> OptionPort::waits_to_lower() const noexcept {
  const ChangeRequests::Request* next = asked_ ? nullptr : requests_.next();
  return next == nullptr ? std::nullopt : characteristics_.lowers_to(next->want);
}

// Returns whether to send a REQXCH only for its answer. The answer uses up one of our older
// Receives before the smaller ones are posted, which an idle connection would keep for ever;
// and it shows that the peer has read our UPDXCH.
bool OptionPort::wants_an_answer() const noexcept {
  const OwnReceiveSize& size = characteristics_.own_size();
  const bool is_due = size.is_due(shared_.counters.messages_received) || has_update_;
  return !peer_is_mute_ && (is_due ? updated_.has_value() : size.is_rising());
}

// Answers have Receives of those whom they answer.
std::optional<OptionPort::Message> OptionPort::next_message(const CreditsV1* credits,
                                                            bool may_lower) {
  using Sort = OptionCredits::Sort;
  shared_.option_credits.stop_waiting();
  if (!messages_.empty()) return messages_.pop();
  if (!shared_.connected) return std::nullopt;
  if (has_announcement_ && may_go(Sort::kOneWay, credits)) {
    has_announcement_ = false;
    return Message{Kind::kOption, *announced_, std::nullopt, Operation::kInitXch};
  }
  if (shared_.option_credits.is_waiting()) return std::nullopt;
  const bool is_due = characteristics_.own_size().is_due(shared_.counters.messages_received);
  if (has_update_ && characteristics_.experimental().due() == nullptr) has_update_ = false;
  if (!announced_) return std::nullopt;
  if ((is_due || has_update_) && !updated_ && may_go(Sort::kOneWay, credits)) {
    return Message{Kind::kOption, next_xid(), std::nullopt, Operation::kUpdXch};
  }
  if (asked_) return std::nullopt;
  const ChangeRequests::Request* next = requests_.next();
  const bool has_request =
      next != nullptr && (may_lower || !characteristics_.lowers_to(next->want));
  if (!has_request && !wants_an_answer()) return std::nullopt;
  if (!may_go(Sort::kRequest, credits)) return std::nullopt;
  asked_ = {next_xid(), has_request, updated_.has_value(), now_ + answer_timeout_};
  return Message{Kind::kOption, asked_->xid, std::nullopt, Operation::kReqXch};
}

void OptionPort::poll_work(WorkRoom& room, const CreditsV1* credits, bool may_lower) {
  while (!room.full()) {
    const auto place = std::ranges::find(in_use_, false);
    if (place == in_use_.end()) return;
    const auto message = next_message(credits, may_lower);
    if (!message) return;
    *place = true;
    const auto index = static_cast<std::uint16_t>(place - in_use_.begin());
    const std::uint32_t size = write(*message, headers_.place(index));
    if (message->receive) shared_.receives.repost(*message->receive);
    peer_.posted(now_);
    room.add_send(to_id({WorkKind::kOptionSend, 0, index, 0}), headers_.slice(index, size), {},
                  false);
  }
}

std::uint32_t OptionPort::write(const Message& message, MutableBytes place) noexcept {
  std::array<std::byte, CharacteristicTable::kInfoSizeMax> info;
  std::uint32_t info_size = 0;
  Direction direction = Direction::kCall;  // with an XID of our own
  if (message.kind != Kind::kOption) {
    direction = Direction::kReply;
    ++(message.kind == Kind::kErrorOption ? shared_.counters.err_option_sent
                                          : shared_.counters.err_chunk_sent);
  } else if (message.operation == Operation::kRespXch) {
    direction = Direction::kReply;
    info_size = write_response(message.answer, info);
  } else if (message.operation == Operation::kReqXch) {
    info_size = write_request(info);
  } else if (message.operation == Operation::kUpdXch) {
    const bool is_size = characteristics_.own_size().is_due(shared_.counters.messages_received);
    info_size = is_size ? characteristics_.write_receive_size(info)
                        : characteristics_.write_experimental(info);
    updated_ = message.xid;
    update_link();
  } else {
    info_size = characteristics_.write_init(info);
    update_link();
  }
  return encode(
      Dialect::kV2,
      {.kind = message.kind,
       .xid = message.xid,
       // A side that is asked grants, one that asks requests; 0 would be no credit at all.
       .credits =
           direction == Direction::kReply ? std::max(shared_.receives.granted(), 1U) : requested_,
       .direction = direction,
       .option = static_cast<std::uint32_t>(message.operation),
       .info = Bytes(info).first(info_size)},
      {}, place);
}

// Writes the next request, or one for a value in force already if only its answer matters.
std::uint32_t OptionPort::write_request(MutableBytes info) noexcept {
  const bool takes = characteristics_.peer().takes_invalidation;
  const SmallValue in_force = SmallValue::of(
      static_cast<std::uint32_t>(v2::CharacteristicId::kRemoteInvalidation), takes ? 1 : 0);
  const v2::CharacteristicValue want =
      asked_->is_request ? requests_.next()->want.view() : in_force.view();
  xdr::Writer writer(info);
  v2::write_request(writer, {&want, 1});
  RPCRDMA_ASSERT(writer.ok(), "the information of an option is longer than its room");
  if (asked_->is_request) requests_.sent();
  return static_cast<std::uint32_t>(writer.position());
}

}  // namespace rpcrdma::engine
