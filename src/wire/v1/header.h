// The Transport header of RPC-over-RDMA version 1 (RFC 8166 §4): values, decode and encode.
//
// docs/wire.md draws the layout. Decoding gives values with every limit applied and never
// allocates: the chunk lists go into storage that the caller keeps and uses again.
#ifndef RPCRDMA_WIRE_V1_HEADER_H_
#define RPCRDMA_WIRE_V1_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>

#include "base/ids.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::wire::v1 {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kHeaderSizeMin = 28;  // bytes: MSG or NOMSG with three empty lists

// rdma_proc, RFC 8166 §4.2.4.
enum class Type : std::uint32_t {
  kMsg = 0,    // RDMA_MSG: the Payload stream follows the header
  kNoMsg = 1,  // RDMA_NOMSG: the Payload stream is in a chunk
  kMsgp = 2,   // RDMA_MSGP, obsolete (RFC 5666 §3.9)
  kDone = 3,   // RDMA_DONE, obsolete (RFC 5666 §3.8)
  kError = 4,  // RDMA_ERROR
};

struct Msg {
  bool operator==(const Msg&) const = default;
};
struct NoMsg {
  bool operator==(const NoMsg&) const = default;
};
struct Msgp {
  std::uint32_t align, threshold;  // bytes
  bool operator==(const Msgp&) const = default;
};
struct Done {
  bool operator==(const Done&) const = default;
};
struct ErrVers {
  std::uint32_t low, high;  // the range of versions that the sender speaks
  bool operator==(const ErrVers&) const = default;
};
struct ErrChunk {
  bool operator==(const ErrChunk&) const = default;
};
using Body = std::variant<Msg, NoMsg, Msgp, Done, ErrVers, ErrChunk>;

struct Header {
  Xid xid;
  std::uint32_t version;  // 1, but an RDMA_ERROR echoes the version that it answers
  std::uint32_t credits;
  Body body;
  bool operator==(const Header&) const = default;
};

struct Decoded {
  Header header;
  Bytes payload;  // what follows the header; borrows from the message
};

// Decodes one message. `lists` is overwritten (it is cleared for bodies without lists). Refuses:
// a message that ends early, a version other than 1 (except in RDMA_ERROR, whose version is only
// echoed), an unknown type or error code, a list discriminator that is not 0 or 1, and counts over
// the limits. Bytes behind an ERR_CHUNK are ignored (some peers send them, specs of RFC 5666 had
// them); bytes behind ERR_VERS, DONE and NOMSG likewise end up in `payload` for the caller to
// judge.
Expected<Decoded, xdr::DecodeError> decode(Bytes message, const Limits& limits, ChunkLists& lists);

// Returns whether the message has the most common form: version 1, RDMA_MSG, no chunk of any kind.
// Its credits are in the third word and its payload starts behind kHeaderSizeMin bytes; decode()
// would find the same more slowly.
inline bool is_short(Bytes message) noexcept {
  if (message.size() < kHeaderSizeMin) return false;
  const std::byte* at = message.data();
  return xdr::load_word(at + 4) == kVersion && xdr::are_four_zero(at + 12);
}
// Writes the header of such a message. Precondition: `output` has room for kHeaderSizeMin bytes.
inline void encode_short(Xid xid, std::uint32_t credits, MutableBytes output) noexcept {
  std::byte* at = output.data();
  xdr::store_word(at, static_cast<std::uint32_t>(xid));
  xdr::store_word(at + 4, kVersion);
  xdr::store_word(at + 8, credits);
  std::memset(at + 12, 0, kHeaderSizeMin - 12);  // RDMA_MSG is zero, and so are three empty lists
}

// Bytes that encode() will write. `lists` is ignored for bodies without lists.
std::size_t encoded_size(const Header& header, const ChunkLists& lists) noexcept;

// Writes the header at the start of `output` and returns its size; kTruncated when it does not fit.
Expected<std::size_t, xdr::Errc> encode(const Header& header, const ChunkLists& lists,
                                        MutableBytes output) noexcept;

}  // namespace rpcrdma::wire::v1

#endif  // RPCRDMA_WIRE_V1_HEADER_H_
