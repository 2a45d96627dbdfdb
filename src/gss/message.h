// Encodes and decodes the parts of RPC messages that RPCSEC_GSS version 1 (RFC 2203) adds: the body
// of its credential, the results of a control message, and the wrapped forms of arguments and
// results.
//
// Decoded views point into the input. Nothing allocates.
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

// The largest sequence number of a context (RFC 2203 §5.3.3.1), which is used up after it.
inline constexpr std::uint32_t kSequenceMax = 0x80000000;

// rpc_gss_cred_vers_1_t. Values are as they were sent: which ones are valid, and how to answer
// invalid ones, differs between the creation of a context and its use.
struct CredentialBody {
  std::uint32_t version = kVersion;
  std::uint32_t control = 0;   // a Control
  std::uint32_t sequence = 0;  // number
  std::uint32_t service = 0;   // a Service
  Bytes handle{};              // of the context; empty while it is made

  bool operator==(const CredentialBody& other) const noexcept;
};

// nullopt: the body is malformed. If the version is not kVersion, only `version` is set, since the
// layout of the rest is unknown.
std::optional<CredentialBody> decode_credential(Bytes body) noexcept;
inline constexpr std::size_t kHandleSizeMax = kAuthBodySizeMax - 5 * xdr::kWordSize;
// Returns the size, bytes. Preconditions: the handle has at most kHandleSizeMax bytes, and `into`
// has room for the body.
std::size_t encode_credential(const CredentialBody& value, MutableBytes into) noexcept;

// rpc_gss_init_res: the results of kInit and kContinueInit.
struct InitResults {
  Bytes handle{};
  std::uint32_t major = 0;   // GSS_S_COMPLETE, GSS_S_CONTINUE_NEEDED, or what went wrong
  std::uint32_t minor = 0;   // the mechanism's
  std::uint32_t window = 0;  // sequence numbers that the server remembers
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
// nullopt: it is malformed, or the size of its body is not a multiple of four, as that of XDR is
// (RFC 2203 §5.3.2.2).
std::optional<IntegrityBody> decode_integrity(Bytes wrapped) noexcept;
// The prefix of wrapped XDR: the length of the body, and the sequence number.
inline constexpr std::size_t kIntegrityPrefixSize = 2 * xdr::kWordSize;

// rpc_gss_priv_data: opaque databody_priv<>, one token. Empty: it is malformed.
MutableBytes decode_privacy(MutableBytes wrapped) noexcept;

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_MESSAGE_H_
