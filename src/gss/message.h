// What RPCSEC_GSS version 1 (RFC 2203) puts into RPC messages: the body of its credential, the
// results of a control message, and the wrapped forms of arguments and results.
//
// Decoded views are into what was decoded. Nothing allocates.
#ifndef RPCRDMA_GSS_MESSAGE_H_
#define RPCRDMA_GSS_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rpcrdma/gss.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {

inline constexpr std::uint32_t kVersion = 1;
// rpc_gss_proc_t, RFC 2203 §5.
enum class Control : std::uint32_t { kData = 0, kInit = 1, kContinueInit = 2, kDestroy = 3 };

// The largest sequence number of a context (RFC 2203 §5.3.3.1): one more, and it is used up.
inline constexpr std::uint32_t kSequenceMax = 0x80000000;

// rpc_gss_cred_vers_1_t. Values are as they were sent: what they have to be differs between a
// context's creation and its use, and so does the answer if they are not.
struct CredentialBody {
  std::uint32_t version = kVersion;
  std::uint32_t control = 0;   // a Control
  std::uint32_t sequence = 0;  // number
  std::uint32_t service = 0;   // a Service
  Bytes handle{};              // of the context; empty while it is made

  bool operator==(const CredentialBody& other) const noexcept;
};

// A body that ends elsewhere than it says: nullopt. For another version than kVersion only that is
// set, since nobody knows what follows it.
std::optional<CredentialBody> decode_credential(Bytes body) noexcept;
inline constexpr std::size_t kHandleSizeMax = kAuthBodySizeMax - 5 * xdr::kWordSize;
// Its size, bytes. Precondition: the handle has at most kHandleSizeMax, and `into` the room.
std::size_t encode_credential(const CredentialBody& value, MutableBytes into) noexcept;

// rpc_gss_init_res: the results of kInit and kContinueInit.
struct InitResults {
  Bytes handle{};
  std::uint32_t major = 0;   // GSS_S_COMPLETE, GSS_S_CONTINUE_NEEDED, or what went wrong
  std::uint32_t minor = 0;   // the mechanism's
  std::uint32_t window = 0;  // sequence numbers that the server keeps apart
  Bytes token{};

  bool operator==(const InitResults& other) const noexcept;
};

std::optional<InitResults> decode_init_results(Bytes results) noexcept;
std::size_t init_results_size(const InitResults& value) noexcept;
void encode_init_results(const InitResults& value, xdr::Writer& writer) noexcept;

// rpc_gss_integ_data: opaque databody<>, opaque checksum<>. The body begins with the sequence
// number.
struct IntegrityBody {
  Bytes body{};  // under the checksum
  Bytes checksum{};
};
// nullopt: it is none, or its body is no multiple of four bytes, which XDR is (RFC 2203 §5.3.2.2).
std::optional<IntegrityBody> decode_integrity(Bytes wrapped) noexcept;
// In front of the XDR that is wrapped: the length of the body, and the sequence number.
inline constexpr std::size_t kIntegrityPrefixSize = 2 * xdr::kWordSize;

// rpc_gss_priv_data: opaque databody_priv<>, one token. Empty: it is none.
MutableBytes decode_privacy(MutableBytes wrapped) noexcept;

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_MESSAGE_H_
