// Where the DDP-eligible items are in arguments or results that are encoded already: for callers
// that carry messages of others, without the types in them (docs/idl.md).
//
//   const auto items = nfs3::NFS_V3_Binding::locate_items(7, rpcrdma::XdrPart::kArguments, bytes);
//   if (!items) return refuse(items.error());     // bytes is not what the file says
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

// Which half of a procedure a piece of XDR is.
enum class XdrPart : std::uint8_t { kArguments, kResults };

// The data of one item, without its count and its padding.
struct ItemPlace {
  std::uint32_t position;  // of its first byte, bytes from the start of the arguments or results
  std::uint32_t size;      // bytes
  bool operator==(const ItemPlace&) const = default;
};

// In the order of the stream. Those behind the first kBulkItemsMax are left out: they stay in the
// message, as those that a MessageWriter encodes do.
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

// Names a type of a file, for the function that walks over one.
template <class T>
struct Of {};

// Walks over XDR as decoding does, with the same limits and failures, and makes no values: it
// allocates nothing.
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
  // Each of so many elements, until one fails.
  template <class Element>
  void repeat(std::uint64_t count, Element element) {
    for (std::uint64_t i = 0; i < count && ok(); ++i) element();
  }
  // The places, or why the bytes are none: also when some are left over.
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
