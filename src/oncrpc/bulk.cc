#include "rpcrdma/message.h"

namespace rpcrdma {

void MessageWriter::bulk(Bytes data) noexcept {
  if (data.size() > 0xffffffffU) return fail();
  if (item_count_ == items_.size()) return writer_.opaque(data);
  writer_.opaque_header(static_cast<std::uint32_t>(data.size()));
  items_[item_count_++] = {writer_.position(), data};
  writer_.pad_for(data.size());
}

MessageReader::MessageReader(Bytes stream, std::size_t offset,
                             std::span<const Placed> placed) noexcept
    : reader_(stream), position_base_(offset) {
  if (placed.size() > placed_.size()) {
    reader_.fail(xdr::Errc::kOverLimit, "placed items");
    return;
  }
  for (const Placed& item : placed) placed_[placed_count_++] = item;
}

Bytes MessageReader::bulk(std::uint32_t size_max, std::string_view field) noexcept {
  const Bytes item = take_bulk(size_max, field);
  const std::size_t number = items_read_++;
  if (last_was_placed_ || number >= landings_.size()) return item;
  // Another item is in that place already.
  if (number < placed_count_ && !placed_[number].data.empty()) return item;
  const MutableBytes place = landings_[number];
  if (item.size() > place.size()) return item;
  std::ranges::copy(item, place.begin());
  return place.first(item.size());
}

Bytes MessageReader::take_bulk(std::uint32_t size_max, std::string_view field) noexcept {
  last_was_placed_ = false;
  const std::size_t start = reader_.position();
  if (next_ == placed_count_) {
    return padding_ == nullptr ? reader_.opaque(size_max, field) : take_padded(size_max, field);
  }
  const Placed& item = placed_[next_];
  if (item.position != kInOrder && item.position != position_base_ + start + xdr::kWordSize) {
    return reader_.opaque(size_max, field);
  }
  const std::uint32_t size = reader_.u32(field);
  if (!reader_.ok()) return {};
  if (size > size_max) {
    reader_.fail(xdr::Errc::kOverLimit, field);
    return {};
  }
  ++next_;
  if (item.position == kInOrder && item.data.empty() && size != 0) {
    // A result for which there was room elsewhere, but the peer left it in the message.
    skip_padding(size, field);
    return reader_.opaque_fixed(size, field);
  }
  // RFC 8166 §3.4.5.2: the chunk may or may not carry the item's XDR padding.
  if (item.data.size() != size && item.data.size() != xdr::padded(size)) {
    reader_.fail(xdr::Errc::kTruncated, field);
    return {};
  }
  position_base_ += xdr::padded(size);
  last_was_placed_ = true;
  return item.data.first(size);
}

Bytes MessageReader::take_padded(std::uint32_t size_max, std::string_view field) noexcept {
  const std::uint32_t size = reader_.u32(field);
  if (reader_.ok() && size > size_max) reader_.fail(xdr::Errc::kOverLimit, field);
  if (!reader_.ok()) return {};
  skip_padding(size, field);
  return reader_.opaque_fixed(size, field);
}

// In front of an item of so many bytes.
void MessageReader::skip_padding(std::uint32_t size, std::string_view field) noexcept {
  if (padding_ == nullptr || padding_->alignment < 2 || size <= padding_->threshold) return;
  const std::uint64_t at = padding_->start + position_base_ + reader_.position();
  const std::uint64_t past = at % padding_->alignment;
  if (past > 0) reader_.skip(padding_->alignment - past, field);
}

bool MessageReader::finish() noexcept {
  while (next_ < placed_count_ && placed_[next_].position == kInOrder) ++next_;
  if (next_ < placed_count_) reader_.fail(xdr::Errc::kTrailing, "placed items");
  if (reader_.ok() && !reader_.rest().empty()) reader_.fail(xdr::Errc::kTrailing, "message");
  return reader_.ok();
}

}  // namespace rpcrdma
