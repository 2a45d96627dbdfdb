#include "engine/v2/option_port.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::engine {

using wire::v2::Operation;

OptionPort::OptionPort(Role role, const Options& options, Shared& shared, HeaderArena headers,
                       std::size_t receives)
    : shared_(shared),
      headers_(headers),
      characteristics_(role, options),
      messages_(receives == 0 ? 0 : receives + 1),
      peer_(options.peer_timeout) {}

void OptionPort::handle_connected(const LinkParameters& link, bool may_invalidate) noexcept {
  link_ = link;
  may_invalidate_ = may_invalidate;
}

void OptionPort::announce(Xid xid) {
  if (announced_) return;
  announced_ = xid;
  messages_.push({Kind::kOption, xid, std::nullopt, Operation::kInitXch});
}

bool OptionPort::takes(const Received& message) const noexcept {
  if (message.kind == Kind::kOption) return true;
  const bool may_refuse = message.kind == Kind::kErrorOption || message.kind == Kind::kErrorChunk;
  return may_refuse && announced_ == message.xid;
}

void OptionPort::handle_received(ReceiveId receive, const Received& message) {
  using Verdict = CharacteristicTable::Verdict;
  // The peer does not have characteristics: the defaults hold.
  if (message.kind != Kind::kOption) {
    return shared_.drop(receive, shared_.counters.err_received);
  }
  ++shared_.counters.options_received;
  std::uint32_t wanted = 0;
  switch (characteristics_.take(message.option, message.payload, wanted)) {
    case Verdict::kHeard:
      update_link();
      return shared_.receives.repost(receive);
    case Verdict::kRequest:
      return messages_.push({Kind::kOption, message.xid, receive, Operation::kRespXch, wanted});
    case Verdict::kUnknown:
      return messages_.push({Kind::kErrorOption, message.xid, receive});
    case Verdict::kBad:
      return messages_.push({Kind::kErrorChunk, message.xid, receive});
  }
}

void OptionPort::update_link() noexcept {
  shared_.update_v2(characteristics_.link(link_, may_invalidate_));
}

void OptionPort::handle_done(const WorkName& name) {
  RPCRDMA_ASSERT(name.slot < kPlaces && in_use_[name.slot],
                 "a completion for work that was not posted");
  in_use_[name.slot] = false;
  peer_.done(now_, shared_.connected);
}

// A peer that takes no answers keeps their Receives.
void OptionPort::handle_timeout(Instant now) {
  if (peer_.expired(now)) shared_.disconnect = true;
}

void OptionPort::handle_disconnected() {
  peer_.stop();
  while (!messages_.empty()) {
    const Message message = messages_.pop();
    if (message.receive) shared_.receives.repost(*message.receive);
  }
}

void OptionPort::poll_work(WorkRoom& room) {
  while (!messages_.empty() && !room.full()) {
    const auto place = std::ranges::find(in_use_, false);
    if (place == in_use_.end()) return;
    *place = true;
    const auto index = static_cast<std::uint16_t>(place - in_use_.begin());
    const Message message = messages_.pop();
    const std::uint32_t size = write(message, headers_.place(index));
    if (message.receive) shared_.receives.repost(*message.receive);
    peer_.posted(now_);
    room.add_send(to_id({WorkKind::kOptionSend, 0, index, 0}), headers_.slice(index, size), {},
                  false);
  }
}

std::uint32_t OptionPort::write(const Message& message, MutableBytes place) noexcept {
  std::array<std::byte, CharacteristicTable::kInfoSizeMax> info;
  std::uint32_t info_size = 0;
  Direction direction = Direction::kReply;
  if (message.kind != Kind::kOption) {
    ++(message.kind == Kind::kErrorOption ? shared_.counters.err_option_sent
                                          : shared_.counters.err_chunk_sent);
  } else if (message.operation == Operation::kRespXch) {
    info_size = CharacteristicTable::write_refusal(message.wanted, info);
  } else {
    info_size = characteristics_.write_init(info);
    direction = Direction::kCall;  // with an XID of our own
    update_link();
  }
  return encode(Dialect::kV2,
                {.kind = message.kind,
                 .xid = message.xid,
                 .credits = shared_.receives.granted(),
                 .direction = direction,
                 .option = static_cast<std::uint32_t>(message.operation),
                 .info = Bytes(info).first(info_size)},
                {}, place);
}

}  // namespace rpcrdma::engine
