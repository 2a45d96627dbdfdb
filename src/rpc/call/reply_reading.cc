#include "rpc/call/reply_reading.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "oncrpc/message.h"
#include "rpc/errors.h"

namespace rpcrdma::rpc {
namespace {

std::optional<Error> read_any(CallSlot& slot, Bytes stream, const engine::ReplyReady& reply,
                              std::string_view peer) {
  xdr::Reader reader(stream);
  if (slot.is_whole) {
    if (!oncrpc::is_reply(stream, slot.xid)) return to_error(nullptr, slot.procedure, peer);
  } else if (oncrpc::is_plain_success(stream, slot.xid)) [[likely]] {
    reader.skip(oncrpc::kReplyHeaderSizeMin, "");
  } else {
    const auto header = oncrpc::decode_reply(reader);
    const bool is_ours = header && header->xid == slot.xid;
    if (is_ours) show(*header, slot.step.seal);
    if (auto error = to_error(is_ours ? &*header : nullptr, slot.procedure, peer)) {
      return error;
    }
  }
  std::array<MessageReader::Placed, kBulkItemsMax> placed;
  const auto items =
      reply.by_read != nullptr ? reply.by_read->items : std::span<const engine::ReadItem>{};
  const bool was_read = !items.empty();
  const std::size_t count =
      was_read ? items.size() : std::min(reply.results_written.size(), slot.result_count);
  std::size_t in_reply_room = reply.in_reply_chunk;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t size = reply.results_written[i];
    if (!was_read || items[i].in_result) {
      placed[i].data = Bytes(slot.results[i]).first(size);
    } else {
      placed[i].data = Bytes(slot.reply_room).subspan(in_reply_room, size);
      in_reply_room += size;
    }
    placed[i].position = was_read ? items[i].position : MessageReader::kInOrder;
  }
  slot.reader = MessageReader(reader.rest(), reader.position(), std::span(placed).first(count));
  slot.reader.set_places(slot.places());
  // The rest of the reply's room is spare, for items that were put into the wrong places.
  if (was_read) slot.reader.set_spare(slot.reply_room.subspan(in_reply_room));
  return std::nullopt;
}

}  // namespace

void show(const oncrpc::ReplyHeader& header, CallSeal& seal) noexcept {
  if (const auto* accepted = std::get_if<oncrpc::Accepted>(&header.body)) {
    seal.reply_verifier = accepted->verifier;
  } else if (const auto* denied = std::get_if<oncrpc::AuthError>(&header.body)) {
    seal.denied = denied->why;
  }
}

std::optional<Error> read_reply(CallSlot& slot, const engine::ReplyReady& reply,
                                std::string_view peer) {
  const Bytes stream = reply.in_reply_chunk > 0 ? Bytes(slot.reply_room).first(reply.in_reply_chunk)
                                                : reply.inline_part;
  if (reply.results_written.empty() && reply.by_read == nullptr && !slot.is_whole &&
      oncrpc::is_plain_success(stream, slot.xid)) [[likely]] {
    std::construct_at(&slot.reader, stream.subspan(oncrpc::kReplyHeaderSizeMin),
                      oncrpc::kReplyHeaderSizeMin);
    slot.reader.set_places(slot.places());
    return std::nullopt;
  }
  auto error = read_any(slot, stream, reply, peer);
  if (!error && reply.by_read != nullptr && reply.by_read->padding.alignment > 1) {
    const engine::Padding& padding = reply.by_read->padding;
    slot.reader.set_alignment(padding.alignment, padding.threshold, padding.start);
  }
  return error;
}

}  // namespace rpcrdma::rpc
