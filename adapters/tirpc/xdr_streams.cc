#include "xdr_streams.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "rpcrdma/xdr.h"

namespace rpcrdma::tirpc {

namespace {

constexpr std::size_t kFirstCapacity = 4096;  // bytes
// Positions of libtirpc are of this type.
constexpr std::size_t kPositionMax = std::numeric_limits<int>::max();
constexpr std::array<std::byte, 4> kPadding{};
// Less is copied: what a chunk or a gather costs more than the copy does. Results are for the
// client to say, which may have room for them in its chunk alone.
constexpr std::size_t kEligibleMin = 4096, kReferredMin = 16'384;  // bytes

XdrWriter& writer(XDR* handle) noexcept {
  return *static_cast<XdrWriter*>(handle->x_private);
}
XdrReader& reader(XDR* handle) noexcept {
  return *static_cast<XdrReader*>(handle->x_private);
}

}  // namespace

// --- XdrWriter ---------------------------------------------------------------------------------

const XDR::xdr_ops XdrWriter::kOperations = {
    .x_getlong = [](XDR*, long*) -> bool_t { return FALSE; },
    .x_putlong = [](XDR* handle, const long* value) -> bool_t {
      std::byte* const at = writer(handle).take(xdr::kWordSize);
      if (at == nullptr) return FALSE;
      xdr::store_word(at, static_cast<std::uint32_t>(*value));
      return TRUE;
    },
    .x_getbytes = [](XDR*, char*, u_int) -> bool_t { return FALSE; },
    .x_putbytes = [](XDR* handle, const char* data, u_int size) -> bool_t {
      if (size == 0) return TRUE;
      std::byte* const at = writer(handle).take(size);
      if (at == nullptr) return FALSE;
      std::memcpy(at, data, size);
      return TRUE;
    },
    .x_getpostn = [](XDR* handle) -> u_int {
      return static_cast<u_int>(writer(handle).position());
    },
    // Positions behind the end are used as well: RPCSEC_GSS leaves room for a length.
    .x_setpostn = [](XDR* handle, u_int position) -> bool_t {
      return writer(handle).move_to(position) ? TRUE : FALSE;
    },
    .x_inline = [](XDR* handle, u_int size) -> std::int32_t* {
      void* const at = writer(handle).take(size);
      return static_cast<std::int32_t*>(at);
    },
    .x_destroy = [](XDR*) {},
    .x_control = [](XDR*, int, void*) -> bool_t { return FALSE; },
};

XdrWriter::XdrWriter(std::size_t size_max) noexcept : size_max_(std::min(size_max, kPositionMax)) {
  xdr_.x_ops = &kOperations;
  xdr_.x_private = this;
  restart();
}

void XdrWriter::restart() noexcept {
  xdr_.x_op = XDR_ENCODE;
  size_ = 0;
  item_count_ = passed_ = 0;
  bind(0, nullptr);
}

void XdrWriter::bind(std::uint32_t eligible, Keeper* keeper) noexcept {
  numbers_.restart(eligible);
  keeper_ = keeper;
  // Data that RDMA may place needs the items itself.
  keeps_others_ = keeper != nullptr && eligible == 0;
}

bool XdrWriter::refer_next(Bytes data) noexcept {
  const bool is_eligible = numbers_.next_is_eligible();
  const bool leaves = is_eligible ? keeper_ != nullptr || data.size() >= kEligibleMin
                                  : keeps_others_ && data.size() >= kReferredMin;
  if (!leaves) return false;
  // The bound is one on the memory for messages: data that is placed apart is in none.
  if (!is_eligible && data.size() > size_max_) return false;
  // Without room for it, or behind a position that was moved back, it is written among the rest.
  const bool has_room = passed_ == item_count_ && item_count_ < items_.size();
  const std::size_t kept_size = is_eligible ? data.size() : xdr::padded_memory(data.size());
  const bool is_kept = has_room && keeper_ != nullptr && kept_size > 0;
  const MutableBytes kept = is_kept ? keeper_->make(kept_size) : MutableBytes{};
  const bool has_place = has_room && (!is_kept || kept.size() == kept_size);
  std::byte* const at = has_place ? take(xdr::kWordSize) : nullptr;
  if (at == nullptr) {
    // A result that follows must not take the place of one that stays in the message.
    if (is_eligible && keeper_ != nullptr) numbers_.restart(0);
    return false;
  }
  xdr::store_word(at, static_cast<std::uint32_t>(data.size()));
  if (is_kept) {
    std::memcpy(kept.data(), data.data(), data.size());
    std::ranges::fill(kept.subspan(data.size()), std::byte{});
    data = kept;
  }
  items_[item_count_++] = {size_, data, is_eligible};
  passed_ = item_count_;
  return true;
}

std::size_t XdrWriter::position() const noexcept {
  std::size_t position = size_;
  for (const Item& each : items()) position += size_of(each);
  return position;
}

bool XdrWriter::move_to(std::size_t position) noexcept {
  std::size_t apart = 0, passed = 0;
  // An item without bytes lies in front of what is at its position.
  const auto is_in_front = [&](const Item& item) {
    return position > item.at + apart || (item.data.empty() && position == item.at + apart);
  };
  while (passed < item_count_ && is_in_front(items_[passed])) {
    apart += size_of(items_[passed]);
    // Inside of an item nothing can be written.
    if (position < items_[passed].at + apart) return false;
    ++passed;
  }
  if (!reserve(position - apart)) return false;
  size_ = position - apart;
  passed_ = passed;
  return true;
}

XdrWriter* XdrWriter::of(XDR* handle) noexcept {
  return handle->x_ops == &kOperations ? &writer(handle) : nullptr;
}

std::byte* XdrWriter::take(std::size_t size) noexcept {
  // A position that was moved back has room up to the next item.
  if (passed_ < item_count_ && size > items_[passed_].at - size_) return nullptr;
  if (size > size_max_ || !reserve(size_ + size)) return nullptr;
  return memory_.get() + std::exchange(size_, size_ + size);
}

bool XdrWriter::reserve(std::size_t size) noexcept {
  if (size <= capacity_) return true;
  if (size > size_max_) return false;
  const std::size_t capacity = std::min(std::max({size, 2 * capacity_, kFirstCapacity}), size_max_);
  std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[capacity]);
  if (!memory) return false;
  // All of it: a position may have been moved back in front of what was written.
  if (capacity_ > 0) std::memcpy(memory.get(), memory_.get(), capacity_);
  memory_ = std::move(memory);
  capacity_ = capacity;
  return true;
}

// --- ResultPlace -------------------------------------------------------------------------------

MutableBytes ResultPlace::make(std::size_t size) noexcept {
  if (!memory_ || size > size_) {
    memory_.reset(static_cast<std::byte*>(std::malloc(size + 1)));
    size_ = memory_ ? size : 0;
  }
  return {memory_.get(), std::min(size, size_)};
}

char* ResultPlace::give(Bytes data) noexcept {
  if (!memory_ || data.data() != memory_.get() || data.size() < size_ / 2) return nullptr;
  void* const given = memory_.release();
  return static_cast<char*>(given);
}

// --- XdrReader ---------------------------------------------------------------------------------

const XDR::xdr_ops XdrReader::kOperations = {
    .x_getlong = [](XDR* handle, long* value) -> bool_t {
      std::array<std::byte, xdr::kWordSize> word{};
      if (!reader(handle).read(word.data(), word.size())) return FALSE;
      *value = static_cast<std::int32_t>(xdr::load_word(word.data()));
      return TRUE;
    },
    .x_putlong = [](XDR*, const long*) -> bool_t { return FALSE; },
    .x_getbytes = [](XDR* handle, char* to, u_int size) -> bool_t {
      return reader(handle).read(reinterpret_cast<std::byte*>(to), size) ? TRUE : FALSE;
    },
    .x_putbytes = [](XDR*, const char*, u_int) -> bool_t { return FALSE; },
    .x_getpostn = [](XDR* handle) -> u_int { return static_cast<u_int>(reader(handle).position_); },
    .x_setpostn = [](XDR* handle, u_int position) -> bool_t {
      return reader(handle).seek(position) ? TRUE : FALSE;
    },
    .x_inline = [](XDR* handle, u_int size) -> std::int32_t* {
      const void* const at = reader(handle).view(size);
      return static_cast<std::int32_t*>(const_cast<void*>(at));
    },
    .x_destroy = [](XDR*) {},
    .x_control = [](XDR*, int, void*) -> bool_t { return FALSE; },
};

XdrReader::XdrReader() noexcept {
  xdr_.x_ops = &kOperations;
  xdr_.x_private = this;
  close();
}

void XdrReader::close() noexcept {
  xdr_.x_op = XDR_DECODE;
  run_count_ = run_ = offset_ = position_ = size_ = 0;
  placed_count_ = next_placed_ = 0;
  bind(0);
}

bool XdrReader::open(MessageReader& message) noexcept {
  close();
  Bytes stream = message.xdr().rest();
  for (const MessageReader::Placed& item : message.placed()) {
    if (item.position == MessageReader::kInOrder) {
      placed_[placed_count_++] = item.data;  // a result, for read_next()
      continue;
    }
    if (item.position < size_) return false;
    const std::size_t before = item.position - size_;
    if (before > stream.size()) return false;
    append(stream.first(before));
    stream = stream.subspan(before);
    append(item.data);
    append(Bytes(kPadding).first(xdr::pad_size(item.data.size())));
  }
  append(stream);
  return size_ <= kPositionMax;
}

void XdrReader::append(Bytes run) noexcept {
  if (run.empty()) return;
  runs_[run_count_++] = run;
  size_ += run.size();
}

bool XdrReader::read(std::byte* to, std::size_t size) noexcept {
  if (size > remaining()) return false;
  position_ += size;
  while (size > 0) {
    const Bytes run = runs_[run_].subspan(offset_);
    const std::size_t part = std::min(size, run.size());
    std::memcpy(to, run.data(), part);
    to += part;
    size -= part;
    offset_ += part;
    if (part == run.size()) {
      ++run_;
      offset_ = 0;
    }
  }
  return true;
}

bool XdrReader::seek(std::size_t position) noexcept {
  if (position > size_) return false;
  position_ = position;
  run_ = 0;
  offset_ = position;
  while (run_ < run_count_ && offset_ >= runs_[run_].size()) offset_ -= runs_[run_++].size();
  return true;
}

const std::byte* XdrReader::view(std::size_t size) noexcept {
  if (run_ == run_count_) return nullptr;
  const std::byte* const at = runs_[run_].data() + offset_;
  const std::size_t in_run = runs_[run_].size() - offset_;
  // Callers read whole words there.
  if (size > in_run || reinterpret_cast<std::uintptr_t>(at) % alignof(std::int32_t) != 0) {
    return nullptr;
  }
  return seek(position_ + size) ? at : nullptr;
}

bool XdrReader::read_next(Next& next) noexcept {
  const bool is_eligible = numbers_.next_is_eligible();
  std::array<std::byte, xdr::kWordSize> word{};
  if (!read(word.data(), word.size())) return false;
  next = {xdr::load_word(word.data()), {}};
  if (!is_eligible || next_placed_ == placed_count_) return next.size <= remaining();
  const Bytes placed = placed_[next_placed_++];
  // Empty: the peer left it in the message. It may have placed the padding as well.
  if (placed.empty()) return next.size <= remaining();
  if (placed.size() != next.size && placed.size() != xdr::padded(next.size)) return false;
  next.placed = placed.first(next.size);
  return true;
}

XdrReader* XdrReader::of(XDR* handle) noexcept {
  return handle->x_ops == &kOperations ? &reader(handle) : nullptr;
}

}  // namespace rpcrdma::tirpc
