// The Transport header of RPC-over-RDMA version 2 (draft-cel-nfsv4-rpcrdma-version-two-01): values,
// decode and encode. The draft's slips are read as ADR 22 says.
//
// As in version 1, decoding gives values with every limit applied and never allocates: the chunk
// lists go into storage that the caller keeps and uses again.
#ifndef RPCRDMA_WIRE_V2_HEADER_H_
#define RPCRDMA_WIRE_V2_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>

#include "base/ids.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::wire::v2 {

inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kHeaderSizeMin = 32;  // bytes: MSG or NOMSG with three empty lists
inline constexpr std::uint32_t kOptionSizeMin = 28;  // bytes: OPTIONAL without information
// Bytes that each side has to be able to take in one Receive.
inline constexpr std::uint32_t kReceiveSizeDefault = 4096;

// rdma_proc. 2 and 3 of version 1 do not exist any more.
enum class Type : std::uint32_t {
  kMsg = 0,       // RDMA2_MSG: the Payload stream follows the header
  kNoMsg = 1,     // RDMA2_NOMSG: the Payload stream is in a chunk
  kError = 4,     // RDMA2_ERROR
  kOptional = 5,  // RDMA2_OPTIONAL
};

// The direction of the message, which says whose XID and credits are in it. With a Payload stream
// it equals msg_type of the RPC message.
enum class Direction : std::uint32_t { kCall = 0, kReply = 1 };

struct Msg {
  Direction direction;
  bool operator==(const Msg&) const = default;
};
struct NoMsg {
  Direction direction;
  bool operator==(const NoMsg&) const = default;
};
struct ErrVers {
  std::uint32_t low, high;  // the range of versions that the sender speaks
  bool operator==(const ErrVers&) const = default;
};
struct ErrBadHeader {  // in place of ERR_CHUNK of version 1
  bool operator==(const ErrBadHeader&) const = default;
};
struct ErrInvalOption {  // the type of an OPTIONAL is not supported
  bool operator==(const ErrInvalOption&) const = default;
};
struct Optional {
  Direction direction;
  std::uint32_t type;
  Bytes info;  // borrows from the message; see characteristics.h
  bool operator==(const Optional& other) const noexcept;
};
using Body = std::variant<Msg, NoMsg, ErrVers, ErrBadHeader, ErrInvalOption, Optional>;

struct Header {
  Xid xid;
  std::uint32_t version;  // 2, but an ERR_VERS may echo the version that it answers
  std::uint32_t credits;
  Body body;
  bool operator==(const Header&) const = default;
};

struct Decoded {
  Header header;
  Bytes payload;  // what follows the header; borrows from the message
};

// Decodes one message. `lists` is overwritten (it is cleared for bodies without lists). Refuses: a
// message that ends early, a version other than 2 (except in ERR_VERS), an unknown type, direction
// or error code, a list discriminator that is not 0 or 1, and counts over the limits. Bytes behind
// an ERROR and behind NOMSG end up in `payload` for the caller to judge.
Expected<Decoded, xdr::DecodeError> decode(Bytes message, const Limits& limits, ChunkLists& lists);

// Returns whether the message has the most common form: RDMA2_MSG without a chunk of any kind. Its
// payload starts behind kHeaderSizeMin bytes; decode() would find the same more slowly.
inline bool is_short(Bytes message) noexcept {
  if (message.size() < kHeaderSizeMin) return false;
  const std::byte* at = message.data();
  return xdr::load_word(at + 4) == kVersion && xdr::load_word(at + 16) <= 1 &&
         (xdr::load_word(at + 12) | xdr::load_word(at + 20) | xdr::load_word(at + 24) |
          xdr::load_word(at + 28)) == 0;
}
// Writes the header of such a message. Precondition: `output` has room for kHeaderSizeMin bytes.
inline void encode_short(Xid xid, std::uint32_t credits, Direction direction,
                         MutableBytes output) noexcept {
  std::byte* at = output.data();
  xdr::store_word(at, static_cast<std::uint32_t>(xid));
  xdr::store_word(at + 4, kVersion);
  xdr::store_word(at + 8, credits);
  xdr::store_word(at + 12, 0);  // RDMA2_MSG
  xdr::store_word(at + 16, static_cast<std::uint32_t>(direction));
  std::memset(at + 20, 0, kHeaderSizeMin - 20);  // three empty lists
}

// Bytes that encode() will write. `lists` is ignored for bodies without lists.
std::size_t encoded_size(const Header& header, const ChunkLists& lists) noexcept;

// Writes the header at the start of `output` and returns its size; kTruncated when it does not fit.
Expected<std::size_t, xdr::Errc> encode(const Header& header, const ChunkLists& lists,
                                        MutableBytes output) noexcept;

}  // namespace rpcrdma::wire::v2

#endif  // RPCRDMA_WIRE_V2_HEADER_H_
