#include "rpc/call/call_sender.h"

#include <algorithm>

#include "oncrpc/message.h"
#include "oncrpc/runs.h"

namespace rpcrdma::rpc {

std::optional<CallSender::Refusal> CallSender::start(CallSlot& slot,
                                                     transport::Connection& connection,
                                                     Instant now) {
  using Kind = Refusal::Kind;
  slot.connection = &connection;
  outgoing_.reply_room.reset();  // all else is set below
  outgoing_.header_room = nullptr;
  if (!build(slot)) return Refusal{Kind::kNoRegistration};
  const std::uint64_t rest_max = this->rest_max(slot);
  std::uint64_t reply_max = rest_max;
  for (const engine::ResultRoom& room : rooms_) reply_max += xdr::padded(room.size_max);
  engine::Connection& engine = connection.engine();
  if (const engine::LinkParameters& link = engine.link(); !link.chunks) {
    reply_max = std::min<std::uint64_t>(
        reply_max, link.inline_receive - engine::header_sizes(link.dialect).shortest);
  }
  outgoing_.stream = stream_.view();
  outgoing_.results = rooms_.view();
  outgoing_.reply_size_max =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(reply_max, 0xffffffffU));
  auto id = engine.requester().start_call(now, slot.xid, outgoing_, slot.timeout);
  if (!id && id.error() == engine::StartError::kReplyRoomNeeded) {
    // The reply may be longer than a message: it needs a Reply chunk.
    const bool fits = reply_max <= transport::BufferPool::kSizeMax;
    const bool is_whole = limits_.whole_reply_in_chunk || (limits_.whole_reply_if_possible && fits);
    const std::uint64_t size = is_whole ? reply_max : rest_max;
    if (slot.reply_room.empty() && size <= transport::BufferPool::kSizeMax) {
      slot.reply_room = pool_.take(static_cast<std::size_t>(size));
    }
    if (!slot.reply_room.empty()) {
      if (!lend_reply_room(slot, size)) return Refusal{Kind::kNoRegistration};
      id = engine.requester().start_call(now, slot.xid, outgoing_, slot.timeout);
    } else if (size <= transport::BufferPool::kSizeMax) {
      return Refusal{Kind::kNoReplyMemory};
    }
  }
  if (!id) return Refusal{Kind::kEngine, id.error()};
  calls_.started(slot, *id);
  return std::nullopt;
}

// The most that is not in the places of results, bytes.
std::uint64_t CallSender::rest_max(const CallSlot& slot) const noexcept {
  if (slot.is_whole) return slot.results_size_max;
  if (slot.step.seal.is_control) [[unlikely]]
    return oncrpc::kReplyHeaderSizeMax + ClientAuth::kControlResultsSizeMax;
  std::uint64_t size = oncrpc::kReplyHeaderSizeMax + std::uint64_t{slot.results_size_max};
  if (growth_) size += *growth_;
  if (growth_ || limits_.no_places) [[unlikely]] {
    for (const MutableBytes place : slot.places()) size += xdr::padded(place.size());
  }
  return size;
}

// Turns what was written into runs of the Payload stream, with every piece of memory registered.
bool CallSender::build(CallSlot& slot) {
  stream_.clear();
  rooms_.clear();
  const CallSeal& seal = slot.step.seal;
  const std::size_t start =
      slot.is_whole ? kHeaderRoom : seal_call(slot.stream, slot.xid, slot.procedure, seal);
  ConnectionMemory::Place place{};
  if (slot.stream_is_room) {
    const auto room = slot.connection->call_room(calls_.index_of(slot));
    place = {room.lease, room.offset};
    // Only what the application has written by reference may come first instead.
    const bool is_first =
        !slot.is_whole || slot.writer.items().empty() || slot.writer.items()[0].at > 0;
    if (is_first) outgoing_.header_room = room.header_room() + start;
  } else {
    const auto lent = memory_.lend(slot.memory, slot.stream);
    if (!lent) return false;
    place = *lent;
  }
  const bool is_wrapping = growth_ && !slot.is_whole;
  if (seal.is_control) [[unlikely]]
    name_control(slot.stream, start);
  if (seal.is_control || (is_wrapping && seal.wrapped)) [[unlikely]] {
    return build_wrapped(slot, {place.lease, static_cast<std::uint32_t>(kHeaderRoom - start),
                                place.offset + start, 0});
  }
  const auto in_place = [&](std::size_t at, std::size_t size) {
    return stream_.push_back({place.lease, static_cast<std::uint32_t>(size), place.offset + at, 0});
  };
  const auto bulk_item = [&](const BulkItem& bulk, std::uint16_t number) {
    const bool stays = is_wrapping || (limits_.counted_items_only && !bulk.is_counted);
    const std::uint16_t item = stays ? std::uint16_t{0} : number;
    if (bulk.data.empty()) return true;
    const auto lent = memory_.lend_read_only(slot.memory, bulk.data);
    return lent && stream_.push_back({lent->lease, static_cast<std::uint32_t>(bulk.data.size()),
                                      lent->offset, item});
  };
  bool ok = oncrpc::for_each_part(slot.writer, {start, kHeaderRoom}, in_place, bulk_item);
  if (is_wrapping && seal.enclosure) [[unlikely]]
    return ok && add_behind(slot, place, seal.enclosure->after);
  if (limits_.no_places || is_wrapping) return ok;  // results come in the message
  for (std::size_t i = 0; ok && i < slot.result_count; ++i) {
    const auto lent = memory_.lend(slot.memory, slot.results[i]);
    ok = lent && rooms_.push_back({lent->lease, static_cast<std::uint32_t>(slot.results[i].size()),
                                   lent->offset, static_cast<std::uint16_t>(i + 1)});
  }
  return ok;
}

// Nothing of a wrapped call is eligible, nor of its reply (RFC 8166 §6.1); the same for a control
// message.
bool CallSender::build_wrapped(CallSlot& slot, const engine::Fragment& header) {
  if (!stream_.push_back(header)) return false;
  const Bytes wrapped = slot.step.seal.wrapped.value_or(Bytes{});
  if (wrapped.empty()) return true;
  const auto lent = memory_.lend_read_only(slot.memory, wrapped);
  return lent && stream_.push_back(
                     {lent->lease, static_cast<std::uint32_t>(wrapped.size()), lent->offset, 0});
}

// Adds a few bytes behind the arguments: in the room that these have left, where there is enough,
// so that no memory is registered for them.
bool CallSender::add_behind(CallSlot& slot, const ConnectionMemory::Place& place, Bytes data) {
  const auto size = static_cast<std::uint32_t>(data.size());
  const std::size_t end = kHeaderRoom + slot.writer.size();
  if (slot.stream.size() - end >= data.size()) {
    std::ranges::copy(data, slot.stream.begin() + static_cast<std::ptrdiff_t>(end));
    return stream_.push_back({place.lease, size, place.offset + end, 0});
  }
  const auto lent = memory_.lend_read_only(slot.memory, data);
  return lent && stream_.push_back({lent->lease, size, lent->offset, 0});
}

bool CallSender::lend_reply_room(CallSlot& slot, std::uint64_t size) {
  const auto lent = memory_.lend(slot.memory, slot.reply_room);
  if (!lent) return false;
  outgoing_.reply_room =
      engine::ResultRoom{lent->lease, static_cast<std::uint32_t>(size), lent->offset, 0};
  return true;
}

}  // namespace rpcrdma::rpc
