#include "gss/wrapping.h"

#include <algorithm>
#include <array>

#include "base/copy.h"
#include "gss/message.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {
namespace {

// Returns the size of the pieces and the sequence number in front of them, bytes.
std::size_t body_size(std::span<const Bytes> pieces) noexcept {
  return xdr::kWordSize + size_of(pieces);
}

}  // namespace

std::size_t size_of(std::span<const Bytes> pieces) noexcept {
  std::size_t size = 0;
  for (const Bytes piece : pieces) size += piece.size();
  return size;
}

std::optional<Enclosure> enclose(Context& context, std::uint32_t sequence,
                                 std::span<const Bytes> pieces, WrapRoom& room) {
  static_assert(kIntegrityPrefixSize <= Enclosure::kBeforeSizeMax);
  std::array<std::byte, kIntegrityPrefixSize> prefix{};
  xdr::store_word(prefix.data(), static_cast<std::uint32_t>(body_size(pieces)));
  xdr::store_word(prefix.data() + xdr::kWordSize, sequence);
  room.pieces.assign(1, Bytes(prefix).subspan(xdr::kWordSize));
  room.pieces.insert(room.pieces.end(), pieces.begin(), pieces.end());
  const bool has_failed = context.checksum(room.pieces, room.checksum).is_error();
  room.pieces.clear();  // of memory that is not this room's
  if (has_failed) return std::nullopt;
  const std::size_t size =
      prefix.size() + xdr::kWordSize + xdr::padded_memory(room.checksum.size());
  room.bytes.assign(size, std::byte{0});
  std::byte* to = std::ranges::copy(prefix, room.bytes.data()).out;
  xdr::store_word(to, static_cast<std::uint32_t>(room.checksum.size()));
  std::ranges::copy(room.checksum, to + xdr::kWordSize);
  const Bytes both(room.bytes);
  return Enclosure{both.first(prefix.size()), both.subspan(prefix.size())};
}

std::optional<Bytes> encipher(Context& context, std::uint32_t sequence,
                              std::span<const Bytes> pieces, WrapRoom& room) {
  const std::size_t header = context.wrap_header_size();
  const std::size_t token = header + body_size(pieces) + context.wrap_trailer_size();
  const std::size_t end = xdr::kWordSize + token;
  room.bytes.resize(xdr::kWordSize + xdr::padded_memory(token));
  std::fill(room.bytes.begin() + static_cast<std::ptrdiff_t>(end), room.bytes.end(), std::byte{0});
  xdr::store_word(room.bytes.data(), static_cast<std::uint32_t>(token));
  std::byte* to = room.bytes.data() + xdr::kWordSize + header;
  xdr::store_word(to, sequence);
  to += xdr::kWordSize;
  for (const Bytes piece : pieces) {
    copy_bytes(piece, to);
    to += piece.size();
  }
  if (context.wrap(MutableBytes(room.bytes).subspan(xdr::kWordSize, token)).is_error()) {
    return std::nullopt;
  }
  return room.bytes;
}

bool wrap(Context& context, Service service, std::uint32_t sequence, std::span<const Bytes> pieces,
          WrapRoom& room, std::optional<Bytes>& wrapped, std::optional<Enclosure>& enclosure) {
  if (service == Service::kIntegrity) {
    enclosure = enclose(context, sequence, pieces, room);
    return enclosure.has_value();
  }
  wrapped = encipher(context, sequence, pieces, room);
  return wrapped.has_value();
}

std::optional<MutableBytes> unwrap(Context& context, Service service, std::uint32_t sequence,
                                   MutableBytes wrapped) {
  MutableBytes body;
  if (service == Service::kIntegrity) {
    const auto found = decode_integrity(wrapped);
    if (!found || !context.is_checksum_of({&found->body, 1}, found->checksum)) return std::nullopt;
    body = wrapped.subspan(xdr::kWordSize, found->body.size());
  } else {
    const MutableBytes token = decode_privacy(wrapped);
    const auto found = token.empty() ? std::nullopt : context.unwrap(token);
    if (!found) return std::nullopt;
    body = *found;
  }
  // RFC 2203 §5.3.3.4.2: the number under the checksum is that of the header.
  if (body.size() < xdr::kWordSize || xdr::load_word(body.data()) != sequence) return std::nullopt;
  return body.subspan(xdr::kWordSize);
}

}  // namespace rpcrdma::gss
