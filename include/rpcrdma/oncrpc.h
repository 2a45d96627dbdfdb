// The parts of an RPC call besides its arguments (RFC 5531): the procedure, the caller's
// credential, and the ways in which a call may fail at the RPC level.
#ifndef RPCRDMA_ONCRPC_H_
#define RPCRDMA_ONCRPC_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/export.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma {

// Names a remote procedure (RFC 5531 §7.3).
struct Procedure {
  std::uint32_t program, version, number;
  bool operator==(const Procedure&) const = default;
};

// A range of supported versions, both ends included.
struct VersionRange {
  std::uint32_t low, high;
  bool operator==(const VersionRange&) const = default;
};

// accept_stat, RFC 5531 §9: the outcome of a call that was not denied.
enum class AcceptStatus : std::uint32_t {
  kSuccess = 0,       // SUCCESS: the results follow
  kProgUnavail = 1,   // PROG_UNAVAIL: the program is not served here
  kProgMismatch = 2,  // PROG_MISMATCH: not this version of it; the served range follows
  kProcUnavail = 3,   // PROC_UNAVAIL: the program has no such procedure
  kGarbageArgs = 4,   // GARBAGE_ARGS: the arguments cannot be decoded
  kSystemErr = 5,     // SYSTEM_ERR: for example out of memory
};

// reject_stat, RFC 5531 §9: why a call was denied.
enum class RejectStatus : std::uint32_t {
  kRpcMismatch = 0,  // RPC_MISMATCH: not this version of RPC
  kAuthError = 1,    // AUTH_ERROR: see AuthStatus
};

// auth_stat, RFC 5531 §9: what is wrong with a credential or a verifier.
enum class AuthStatus : std::uint32_t {
  kOk = 0,
  kBadCredential = 1,          // AUTH_BADCRED: broken seal
  kRejectedCredential = 2,     // AUTH_REJECTEDCRED: begin a new session
  kBadVerifier = 3,            // AUTH_BADVERF: broken seal
  kRejectedVerifier = 4,       // AUTH_REJECTEDVERF: expired or replayed
  kTooWeak = 5,                // AUTH_TOOWEAK: rejected for security reasons
  kInvalidResponse = 6,        // AUTH_INVALIDRESP: bogus verifier in a reply
  kFailed = 7,                 // AUTH_FAILED: reason unknown
  kKerbGeneric = 8,            // AUTH_KERB_GENERIC
  kTimeExpired = 9,            // AUTH_TIMEEXPIRE
  kTicketFile = 10,            // AUTH_TKT_FILE
  kDecode = 11,                // AUTH_DECODE
  kNetAddress = 12,            // AUTH_NET_ADDR
  kGssCredentialProblem = 13,  // RPCSEC_GSS_CREDPROBLEM
  kGssContextProblem = 14,     // RPCSEC_GSS_CTXPROBLEM
};

// Static text.
RPCRDMA_EXPORT std::string_view to_string(AcceptStatus status) noexcept;
RPCRDMA_EXPORT std::string_view to_string(RejectStatus status) noexcept;
RPCRDMA_EXPORT std::string_view to_string(AuthStatus status) noexcept;

// auth_flavor, RFC 5531 §8.2. Other values may occur and are preserved.
enum class AuthFlavor : std::uint32_t {
  kNone = 0,       // AUTH_NONE
  kSys = 1,        // AUTH_SYS, RFC 5531 appendix A
  kShort = 2,      // AUTH_SHORT
  kDh = 3,         // AUTH_DH
  kRpcsecGss = 6,  // RPCSEC_GSS, RFC 2203
};

// The protection of a call: the flavor of its credential, and for RPCSEC_GSS with Kerberos 5 the
// service as well, by the numbers that NFS has for them (RFC 2623 §2.2). Other values may occur.
enum class Protection : std::uint32_t {
  kNone = 0,        // AUTH_NONE
  kSys = 1,         // AUTH_SYS: the caller says who it is, and nothing proves it
  kKrb5 = 390003,   // the caller is proved
  kKrb5i = 390004,  // and arguments and results cannot be changed on their way
  kKrb5p = 390005,  // nor read
};

// A user of this machine (getpwnam), and all groups that it is in.
struct LocalUser {
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> gids{};
};

// The caller of a call. Borrowed, as a credential is.
struct Caller {
  Protection protection = Protection::kNone;
  std::string_view principal{};     // that a security mechanism has proved, "alice@REALM"
  const LocalUser* user = nullptr;  // that this is; null: none
};

inline constexpr std::uint32_t kAuthBodySizeMax = 400;     // bytes, RFC 5531 §8.2
inline constexpr std::uint32_t kMachineNameSizeMax = 255;  // bytes, RFC 5531 appendix A
inline constexpr std::uint32_t kGidsMax = 16;              // RFC 5531 appendix A

// opaque_auth, RFC 5531 §8.2: a credential or a verifier.
struct Credential {
  AuthFlavor flavor = AuthFlavor::kNone;
  Bytes body{};  // borrowed; at most kAuthBodySizeMax bytes, in the form of its flavor
  bool operator==(const Credential& other) const noexcept {
    return flavor == other.flavor && std::ranges::equal(body, other.body);
  }
};

// The body of an AUTH_SYS credential, RFC 5531 appendix A. Nothing in it is authenticated: a peer
// can claim to be anyone.
struct AuthSys {
  std::uint32_t stamp = 0;          // chosen by the caller; not interpreted
  std::string_view machine_name{};  // borrowed; at most kMachineNameSizeMax bytes
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::array<std::uint32_t, kGidsMax> gids{};  // further groups; the first gid_count are in use
  std::uint32_t gid_count = 0;                 // at most kGidsMax

  std::span<const std::uint32_t> further_gids() const noexcept {
    return std::span(gids).first(std::min<std::size_t>(gid_count, kGidsMax));
  }
  bool operator==(const AuthSys& other) const noexcept {
    return stamp == other.stamp && machine_name == other.machine_name && uid == other.uid &&
           gid == other.gid && std::ranges::equal(further_gids(), other.further_gids());
  }
};

// Parses the body of a credential whose flavor is kSys. nullopt if it is cut off, too long, has
// trailing bytes or breaks a limit; deny the call with kBadCredential then. The machine name is a
// view into `body`.
RPCRDMA_EXPORT std::optional<AuthSys> parse_auth_sys(Bytes body) noexcept;

// Writes the body and returns its size, at most 340 bytes. kTruncated if it does not fit,
// kOverLimit if the machine name or the number of groups is over its limit.
RPCRDMA_EXPORT Expected<std::size_t, xdr::Errc> encode_auth_sys(const AuthSys& value,
                                                                MutableBytes output) noexcept;

}  // namespace rpcrdma

#endif  // RPCRDMA_ONCRPC_H_
