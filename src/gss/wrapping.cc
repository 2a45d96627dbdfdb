#include "gss/wrapping.h"

#include <algorithm>

#include "gss/message.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {
namespace {

// The number, and the pieces.
void write(std::uint32_t sequence, std::span<const Bytes> pieces, std::byte* to) {
  xdr::store_word(to, sequence);
  to += xdr::kWordSize;
  for (const Bytes piece : pieces) to = std::ranges::copy(piece, to).out;
}

}  // namespace

bool wrap(Context& context, Service service, std::uint32_t sequence, std::span<const Bytes> pieces,
          std::vector<std::byte>& wrapped) {
  std::size_t size = xdr::kWordSize;
  for (const Bytes piece : pieces) size += piece.size();
  if (service == Service::kIntegrity) {
    wrapped.resize(xdr::kWordSize + size);
    xdr::store_word(wrapped.data(), static_cast<std::uint32_t>(size));
    write(sequence, pieces, wrapped.data() + xdr::kWordSize);
    const Bytes body = Bytes(wrapped).subspan(xdr::kWordSize);
    std::vector<std::byte> checksum;
    if (context.checksum({&body, 1}, checksum).is_error()) return false;
    const std::size_t end = wrapped.size();
    wrapped.resize(end + xdr::kWordSize + xdr::padded(checksum.size()));
    xdr::store_word(wrapped.data() + end, static_cast<std::uint32_t>(checksum.size()));
    std::ranges::copy(checksum, wrapped.data() + end + xdr::kWordSize);
    return true;
  }
  const std::size_t header = context.wrap_header_size();
  const std::size_t token = header + size + context.wrap_trailer_size();
  wrapped.assign(xdr::kWordSize + xdr::padded(token), std::byte{0});
  xdr::store_word(wrapped.data(), static_cast<std::uint32_t>(token));
  write(sequence, pieces, wrapped.data() + xdr::kWordSize + header);
  return !context.wrap(MutableBytes(wrapped).subspan(xdr::kWordSize, token)).is_error();
}

std::optional<Bytes> unwrap(Context& context, Service service, std::uint32_t sequence,
                            Bytes wrapped, std::vector<std::byte>& room) {
  Bytes body;
  if (service == Service::kIntegrity) {
    const auto found = decode_integrity(wrapped);
    if (!found || !context.is_checksum_of({&found->body, 1}, found->checksum)) return std::nullopt;
    body = found->body;
  } else {
    room.assign(wrapped.begin(), wrapped.end());
    const MutableBytes token = decode_privacy(room);
    const auto found = token.empty() ? std::nullopt : context.unwrap(token);
    if (!found) return std::nullopt;
    body = *found;
  }
  // RFC 2203 §5.3.3.4.2: the number under the checksum is that of the header.
  if (body.size() < xdr::kWordSize || xdr::load_word(body.data()) != sequence) return std::nullopt;
  return body.subspan(xdr::kWordSize);
}

}  // namespace rpcrdma::gss
