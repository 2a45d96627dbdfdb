#include <string>

#include "base/copy.h"
#include "rpcrdma/message.h"

namespace rpcrdma {

void MessageWriter::bulk(Bytes data) noexcept {
  if (data.size() > 0xffffffffU) return fail();
  if (item_count_ == items_.size()) return writer_.opaque(data);
  writer_.opaque_header(static_cast<std::uint32_t>(data.size()));
  take_item(data, true, true);
}

void MessageWriter::bulk_fixed(Bytes data) noexcept {
  if (data.size() > 0xffffffffU) return fail();
  if (item_count_ == items_.size()) return writer_.opaque_fixed(data);
  take_item(data, true, false);
}

void MessageWriter::lend(Bytes encoded) noexcept {
  if (encoded.size() % xdr::kWordSize != 0 || encoded.size() > 0xffffffffU) return fail();
  if (item_count_ == items_.size()) return writer_.opaque_fixed(encoded);
  take_item(encoded, false, false);
}

void MessageWriter::fail(std::string_view field, std::uint64_t size,
                         std::uint64_t size_max) noexcept {
  refuse(State::kOverBound, {field, size, size_max});
}

void MessageWriter::fail(std::string_view field) noexcept {
  refuse(State::kNoValue, {field, 0, 0});
}

void MessageWriter::refuse(State state, const Refusal& refusal) noexcept {
  if (state_ != State::kOk) return;
  state_ = state;
  item_count_ = 0;
  refusal_ = refusal;
}

std::string MessageWriter::refusal() const {
  const auto text = [](std::uint64_t number) { return std::to_string(number); };
  switch (state_) {
    case State::kOk:
    case State::kRefused:
      return {};
    case State::kOverBound:
      return "'" + std::string(refusal_.field) + "' has a size of " + text(refusal_.size) +
             ", and its bound is " + text(refusal_.size_max);
    case State::kNoValue:
      return "'" + std::string(refusal_.field) + "' has a value that the interface does not define";
  }
  return {};
}

void MessageWriter::take_item(Bytes data, bool is_eligible, bool is_counted) noexcept {
  if (state_ != State::kOk) [[unlikely]]
    return;
  items_[item_count_++] = {writer_.position(), data, is_eligible, is_counted};
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
  if (number >= places_.size()) return item;
  const MutableBytes place = places_[number];
  if (item.size() > place.size()) {
    reader_.fail(xdr::Errc::kOverLimit, field);
    return {};
  }
  if (last_was_placed_ || !lands_ || !reader_.ok()) return item;
  copy_bytes(item, place.data());
  return place.first(item.size());
}

Bytes MessageReader::take_bulk(std::uint32_t size_max, std::string_view field) noexcept {
  last_was_placed_ = false;
  const std::size_t start = reader_.position();
  if (next_ == placed_count_) return reader_.opaque(size_max, field);
  Placed& item = placed_[next_];
  if (item.position != kInOrder && item.position != position_base_ + start + xdr::kWordSize) {
    if (!clear_place(items_read_, field)) return {};
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
    reader_.skip_alignment(size, field);
    return reader_.opaque_fixed(size, field);
  }
  // RFC 8166 §3.4.5.2: the chunk may or may not carry the item's XDR padding.
  if (item.data.size() != size && item.data.size() != xdr::padded(size)) {
    reader_.fail(xdr::Errc::kTruncated, field);
    return {};
  }
  position_base_ += xdr::padded_memory(size);
  last_was_placed_ = true;
  return take_placed(item.data.first(size), field);
}

// An item that lies elsewhere than in its own place counts as one of the message.
Bytes MessageReader::take_placed(Bytes data, std::string_view field) noexcept {
  if (items_read_ >= places_.size() || data.data() == places_[items_read_].data()) return data;
  last_was_placed_ = false;
  return clear_place(items_read_, field) ? data : Bytes{};
}

// Moves what lies in the place of item `number` and belongs to a later one. False: there is no room
// for it, and the reader has failed.
bool MessageReader::clear_place(std::uint32_t number, std::string_view field) noexcept {
  if (number >= places_.size()) return true;
  for (Placed& item : std::span(placed_).first(placed_count_).subspan(next_)) {
    if (item.data.empty() || item.data.data() != places_[number].data()) continue;
    if (item.data.size() > spare_.size()) {
      reader_.fail(xdr::Errc::kOverLimit, field);
      return false;
    }
    copy_bytes(item.data, spare_.data());
    item.data = Bytes(spare_).first(item.data.size());
    spare_ = spare_.subspan(item.data.size());
  }
  return true;
}

bool MessageReader::finish() noexcept {
  while (next_ < placed_count_ && placed_[next_].position == kInOrder) ++next_;
  if (next_ < placed_count_) reader_.fail(xdr::Errc::kTrailing, "placed items");
  if (reader_.ok() && !reader_.rest().empty()) reader_.fail(xdr::Errc::kTrailing, "message");
  return reader_.ok();
}

}  // namespace rpcrdma
