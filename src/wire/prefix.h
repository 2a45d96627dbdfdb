// The four words that start a message of any version of RPC-over-RDMA.
#ifndef RPCRDMA_WIRE_PREFIX_H_
#define RPCRDMA_WIRE_PREFIX_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::wire {

struct Prefix {
  Xid xid;
  std::uint32_t version;
  std::uint32_t credits;  // Call: requested; reply and error: granted
  std::uint32_t type;     // rdma_proc; its meaning depends on the version, except 4 = error
  bool operator==(const Prefix&) const = default;
};

inline constexpr std::uint32_t kPrefixSize = 16;  // bytes
inline constexpr std::array<std::string_view, 4> kPrefixFields{"rdma_xid", "rdma_vers",
                                                               "rdma_credit", "rdma_proc"};

// Reads the fixed words without judging them. Fails only when the message is shorter than 16 bytes.
inline Expected<Prefix, xdr::DecodeError> peek(Bytes message) {
  if (message.size() < kPrefixSize) [[unlikely]] {
    const std::size_t whole = message.size() / xdr::kWordSize;
    return Unexpected<xdr::DecodeError>(
        xdr::DecodeError{xdr::Errc::kTruncated, whole * xdr::kWordSize, kPrefixFields[whole]});
  }
  const std::byte* at = message.data();
  return Prefix{Xid{xdr::load_word(at)}, xdr::load_word(at + 4), xdr::load_word(at + 8),
                xdr::load_word(at + 12)};
}

}  // namespace rpcrdma::wire

#endif  // RPCRDMA_WIRE_PREFIX_H_
