// Arguments and results in the XDR codec: small items are written and read in place; bulk items
// (DDP-eligible ones, RFC 8166 §3.4) stay in the application's memory.
#ifndef RPCRDMA_MESSAGE_H_
#define RPCRDMA_MESSAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rpcrdma/export.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma {

inline constexpr std::size_t kBulkItemsMax = 8;  // in one message; further ones are not bulk

// Bytes of a message that stay in the application's memory.
struct BulkItem {
  std::size_t at;  // bytes of the written stream before it
  Bytes data;
  bool is_eligible = true;  // for direct data placement; else only the copy is avoided
  bool is_counted = true;   // its count word is directly in front of it
};

// Encodes one message in one pass. A view over library memory; it dies with its call.
class RPCRDMA_EXPORT MessageWriter {
 public:
  MessageWriter() noexcept : writer_(MutableBytes{}) {}
  explicit MessageWriter(MutableBytes output) noexcept : writer_(output) {}
  MessageWriter(const MessageWriter& other) noexcept : writer_(other.writer_) { *this = other; }
  MessageWriter& operator=(const MessageWriter& other) noexcept {
    writer_ = other.writer_;
    item_count_ = other.item_count_;
    state_ = other.state_;
    if (state_ >= State::kOverBound) [[unlikely]] {
      refusal_ = other.refusal_;
    } else {
      std::copy_n(other.items_.data(), other.item_count_, items_.data());
    }
    return *this;
  }

  // Returns the writer for small items: numbers, strings, short opaques.
  xdr::Writer& xdr() noexcept { return writer_; }

  // opaque<> by reference: the count word goes into the stream; the data stays in place until the
  // call ends and is sent from there without a copy, perhaps more than once. It must not change
  // until then: its checksum (RPCSEC_GSS integrity) is made before it is sent. Items after the
  // first kBulkItemsMax are written in place, which takes room there.
  void bulk(Bytes data) noexcept;
  // opaque[n] by reference: the same, without writing a count word (the caller may have written
  // one). XDR padding is written after it.
  void bulk_fixed(Bytes data) noexcept;
  // XDR that was encoded elsewhere, by reference. It is not DDP-eligible: it stays in the message,
  // or moves with the whole message. If its size is not a multiple of four, the message is refused.
  void lend(Bytes encoded) noexcept;
  // Refuses the message: for values that only the caller can check, like a count over its limit.
  void fail() noexcept {
    if (state_ == State::kOk) state_ = State::kRefused;
  }
  // Does the same for a field of `size` bytes or elements, of which there may be `size_max`. The
  // first refusal counts. `field` is static text.
  void fail(std::string_view field, std::uint64_t size, std::uint64_t size_max) noexcept;
  // Does the same for a value that the field cannot have.
  void fail(std::string_view field) noexcept;
  // Says what fail() refused; empty if the message is longer than it may be, or ok().
  std::string refusal() const;

  bool ok() const noexcept { return writer_.ok() && state_ == State::kOk; }
  std::size_t size() const noexcept { return writer_.position(); }  // bytes written in place
  std::span<const BulkItem> items() const noexcept { return {items_.data(), item_count_}; }

 private:
  enum class State : std::uint8_t { kOk, kRefused, kOverBound, kNoValue };
  struct Refusal {
    std::string_view field;
    std::uint64_t size, size_max;
  };
  void take_item(Bytes data, bool is_eligible, bool is_counted) noexcept;
  void refuse(State state, const Refusal& refusal) noexcept;

  xdr::Writer writer_;
  // These are in a union, so that unused elements are not initialised: a writer is created for each
  // call. A refused message has no items any more.
  union {
    std::array<BulkItem, kBulkItemsMax> items_;
    Refusal refusal_;  // with kOverBound and kNoValue
  };
  std::size_t item_count_ = 0;
  State state_ = State::kOk;
};

// Decodes one message whose bulk items may be inline or placed elsewhere. The returned views live
// as long as the call or reply.
class RPCRDMA_EXPORT MessageReader {
 public:
  static constexpr std::uint32_t kInOrder = 0xffffffff;
  struct Placed {
    std::uint32_t
        position;  // in the unreduced stream (RFC 8166 §3.4.5), or kInOrder: the next item
    Bytes data;
  };

  MessageReader() noexcept : reader_(Bytes{}) {}
  MessageReader(const MessageReader& other) noexcept : reader_(other.reader_) { *this = other; }
  MessageReader& operator=(const MessageReader& other) noexcept {
    reader_ = other.reader_;
    std::copy_n(other.placed_.data(), other.placed_count_, placed_.data());
    placed_count_ = other.placed_count_;
    next_ = other.next_;
    position_base_ = other.position_base_;
    last_was_placed_ = other.last_was_placed_;
    places_ = other.places_;
    spare_ = other.spare_;
    lands_ = other.lands_;
    items_read_ = other.items_read_;
    depth_ = other.depth_;
    return *this;
  }
  // Reads a message without placed items.
  explicit MessageReader(Bytes stream, std::size_t offset = 0) noexcept
      : reader_(stream), position_base_(offset) {}
  // `stream` starts `offset` bytes into the message, at a point before any item. `placed` is in
  // order.
  MessageReader(Bytes stream, std::size_t offset, std::span<const Placed> placed) noexcept;

  xdr::Reader& xdr() noexcept { return reader_; }
  // Where the next byte of xdr() is in the unreduced message, bytes from its beginning.
  std::uint64_t position() const noexcept { return position_base_ + reader_.position(); }

  // opaque<> that may have been placed by RDMA: a view of it, wherever it is. Its padding is
  // consumed whether the peer sent it or not. An item larger than its place, or than `size_max`,
  // fails with kOverLimit, wherever it is.
  Bytes bulk(std::uint32_t size_max, std::string_view field) noexcept;
  // The items outside xdr()'s bytes, in order, for callers that pass the message on.
  std::span<const Placed> placed() const noexcept { return {placed_.data(), placed_count_}; }
  // Returns whether RDMA placed the last bulk(); if not, it is a view of the message.
  bool last_was_placed() const noexcept { return last_was_placed_; }
  // The application's places, in the order of the items. The span must live as long as the reader
  // is in use.
  void set_places(std::span<const MutableBytes> places) noexcept { places_ = places; }
  // Leaves items that are in the message there; by default bulk() copies them to their places.
  void view() noexcept { lands_ = false; }
  // The items were assigned to the places by guess (RFC 5666: a reply's Read chunks give their
  // positions, and only decoding shows which item is where). An item that belongs elsewhere is
  // moved before its place is handed to the caller; `spare` is memory for items without a place.
  void set_spare(MutableBytes spare) noexcept { spare_ = spare; }

  // Prepares for a message with aligned data: `start` is the position of the message's first byte
  // for alignment.
  void set_alignment(std::uint32_t alignment, std::uint32_t threshold,
                     std::uint32_t start) noexcept {
    reader_.set_alignment({alignment, threshold, start + position_base_});
  }

  // Surround each item of a recursive type with these, so that no peer chooses the depth of the
  // stack. enter() returns false, with kOverLimit, at depth kDepthMax. Call leave() only after
  // true.
  static constexpr std::uint32_t kDepthMax = 100;
  bool enter(std::string_view field) noexcept {
    if (depth_ == kDepthMax) reader_.fail(xdr::Errc::kOverLimit, field);
    if (!reader_.ok()) return false;
    ++depth_;
    return true;
  }
  void leave() noexcept { --depth_; }

  bool ok() const noexcept { return reader_.ok(); }
  // True if everything was decoded: nothing failed, there are no trailing bytes, and each placed
  // item was requested.
  bool finish() noexcept;

 private:
  Bytes take_bulk(std::uint32_t size_max, std::string_view field) noexcept;
  Bytes take_placed(Bytes data, std::string_view field) noexcept;
  bool clear_place(std::uint32_t number, std::string_view field) noexcept;

  xdr::Reader reader_;
  union {  // as in MessageWriter
    std::array<Placed, kBulkItemsMax> placed_;
  };
  std::uint32_t placed_count_ = 0;
  std::uint32_t next_ = 0;
  std::uint64_t position_base_ = 0;  // of the reader's first byte; grows by the placed bytes
  std::uint32_t depth_ = 0;
  std::uint32_t items_read_ = 0;
  std::span<const MutableBytes> places_;
  MutableBytes spare_;
  bool lands_ = true;
  bool last_was_placed_ = false;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_MESSAGE_H_
