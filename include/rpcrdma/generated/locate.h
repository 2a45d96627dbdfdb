// Positions of the DDP-eligible items in already encoded arguments or results: for callers that
// carry messages of others without knowing their types (docs/idl.md).
//
//   const auto items = nfs3::NFS_V3_Binding::locate_items(7, rpcrdma::XdrPart::kArguments, bytes);
//   if (!items) return refuse(items.error());     // bytes do not match the file
//   for (const rpcrdma::ItemPlace& item : *items) send_by_read(bytes.subspan(item.position,
//   item.size));
#ifndef RPCRDMA_GENERATED_LOCATE_H_
#define RPCRDMA_GENERATED_LOCATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "rpcrdma/message.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma {

// The part of a procedure that the XDR encodes.
enum class XdrPart : std::uint8_t { kArguments, kResults };

// The data of one item, without its count and its padding.
struct ItemPlace {
  std::uint32_t position;  // of its first byte, bytes from the start of the arguments or results
  std::uint32_t size;      // bytes
  bool operator==(const ItemPlace&) const = default;
};

// Places in stream order. Items after the first kBulkItemsMax are left out: they stay in the
// message, as with a MessageWriter.
class ItemPlaces {
 public:
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const ItemPlace* begin() const noexcept { return places_.data(); }
  const ItemPlace* end() const noexcept { return places_.data() + size_; }
  // Precondition: index < size().
  const ItemPlace& operator[](std::size_t index) const noexcept { return places_[index]; }

  void add(const ItemPlace& place) noexcept {
    if (size_ < places_.size()) places_[size_++] = place;
  }

 private:
  std::array<ItemPlace, kBulkItemsMax> places_{};
  std::size_t size_ = 0;
};

namespace codec {

// Names a type of the file, for the function that walks over its values.
template <class T>
struct Of {};

// Walks over XDR with the limits and failures of decoding, without creating values or allocating.
class ItemReader : public MessageReader {
 public:
  explicit ItemReader(Bytes stream) noexcept : MessageReader(stream, 0, {}) {}

  void bulk(std::uint32_t size_max, std::string_view field) noexcept {
    const std::size_t position = xdr().position() + xdr::kWordSize;
    const Bytes data = MessageReader::bulk(size_max, field);
    if (!ok()) return;
    if (position > std::numeric_limits<std::uint32_t>::max()) {
      return xdr().fail(xdr::Errc::kOverLimit, field);
    }
    places_.add({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(data.size())});
  }
  // Calls `element` up to `count` times, until one fails.
  template <class Element>
  void repeat(std::uint64_t count, Element element) {
    for (std::uint64_t i = 0; i < count && ok(); ++i) element();
  }
  // The places, or the reason why the bytes are invalid, including left-over bytes.
  Expected<ItemPlaces, xdr::DecodeError> finish_items() noexcept {
    if (!finish()) return Unexpected<xdr::DecodeError>(xdr().error());
    return places_;
  }

 private:
  ItemPlaces places_;
};

}  // namespace codec
}  // namespace rpcrdma

#endif  // RPCRDMA_GENERATED_LOCATE_H_
