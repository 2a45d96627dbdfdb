// The headers of RPC messages (RFC 5531 §9): what stands before arguments and results.
//
// Decoding works on a Reader of the caller's and leaves it at the first byte of the arguments or
// results; views in the decoded values are into what it reads. Encoding writes into a Writer of the
// caller's, which remembers when something did not fit. Nothing allocates.
#ifndef RPCRDMA_ONCRPC_MESSAGE_H_
#define RPCRDMA_ONCRPC_MESSAGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/ids.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::oncrpc {

inline constexpr std::uint32_t kRpcVersion = 2;
inline constexpr std::size_t kCallHeaderSizeMin = 40;   // bytes, with AUTH_NONE twice
inline constexpr std::size_t kReplyHeaderSizeMin = 24;  // bytes, accepted with AUTH_NONE
// The size with a credential and a verifier of full size.
inline constexpr std::size_t kCallHeaderSizeMax =
    kCallHeaderSizeMin + 2 * std::size_t{kAuthBodySizeMax};
// Accepted, with a verifier of full size and the range of PROG_MISMATCH.
inline constexpr std::size_t kReplyHeaderSizeMax = kReplyHeaderSizeMin + kAuthBodySizeMax + 8;

struct CallHeader {
  Xid xid;
  Procedure procedure;
  Credential credential;
  Credential verifier;
  bool operator==(const CallHeader&) const = default;
};

// accepted_reply.
struct Accepted {
  AcceptStatus status = AcceptStatus::kSuccess;
  VersionRange versions{};  // of the program; on the wire only with kProgMismatch, else zero
  Credential verifier{};
  bool operator==(const Accepted&) const = default;
};
// rejected_reply with RPC_MISMATCH.
struct RpcMismatch {
  VersionRange versions;  // of RPC
  bool operator==(const RpcMismatch&) const = default;
};
// rejected_reply with AUTH_ERROR.
struct AuthError {
  AuthStatus why;
  bool operator==(const AuthError&) const = default;
};

struct ReplyHeader {
  Xid xid;
  std::variant<Accepted, RpcMismatch, AuthError> body;
  bool operator==(const ReplyHeader&) const = default;
};

// The reason why a message is not accepted as a Call.
struct BadCall {
  xdr::DecodeError error;
  // The reply that RFC 5531 requires: RPC_MISMATCH for another version of RPC, AUTH_ERROR for a
  // credential or verifier over its limit or with bad fill bytes. nullopt: it is not a Call, or it
  // ends before its header does, so that there is nothing to answer; drop it.
  std::optional<ReplyHeader> answer;
};

// Accept the most common headers, compared word by word: a Call with AUTH_NONE twice, and an
// accepted success with AUTH_NONE. They take kCallHeaderSizeMin and kReplyHeaderSizeMin bytes;
// decode_call() and decode_reply() have the same result. False: it is another header, or a wrong
// one.
bool take_plain_call(Bytes bytes, CallHeader& header) noexcept;
bool is_plain_success(Bytes bytes, Xid xid) noexcept;

// Returns whether the message's type is CALL, or the message ends before its type.
bool is_call(Bytes message) noexcept;
// Returns whether the message begins as a reply to the call does; its status is not looked at.
bool is_reply(Bytes message, Xid xid) noexcept;

Expected<CallHeader, BadCall> decode_call(xdr::Reader& reader);

// Refuses what is not a reply and values that RFC 5531 does not define (kBadEnum), and verifiers
// over kAuthBodySizeMax (kOverLimit).
Expected<ReplyHeader, xdr::DecodeError> decode_reply(xdr::Reader& reader);

// Bytes that encode_call() writes; a multiple of four, as is kCallHeaderSizeMax.
inline std::size_t call_header_size(const CallHeader& header) noexcept {
  return kCallHeaderSizeMin + xdr::padded_memory(header.credential.body.size()) +
         xdr::padded_memory(header.verifier.body.size());
}
// Precondition of both: bodies of credentials and verifiers are at most kAuthBodySizeMax bytes.
void encode_call(const CallHeader& header, xdr::Writer& writer) noexcept;
void encode_reply(const ReplyHeader& header, xdr::Writer& writer) noexcept;
// AUTH_NONE.
inline bool is_plain(const Credential& credential) noexcept {
  return credential.flavor == AuthFlavor::kNone && credential.body.empty();
}
// The header of a Call with AUTH_NONE twice.
inline void encode_plain_call(Xid xid, const Procedure& procedure,
                              std::span<std::byte, kCallHeaderSizeMin> to) noexcept {
  std::byte* at = to.data();
  xdr::store_word(at, static_cast<std::uint32_t>(xid));
  xdr::store_word(at + 1 * xdr::kWordSize, 0);  // CALL
  xdr::store_word(at + 2 * xdr::kWordSize, kRpcVersion);
  xdr::store_word(at + 3 * xdr::kWordSize, procedure.program);
  xdr::store_word(at + 4 * xdr::kWordSize, procedure.version);
  xdr::store_word(at + 5 * xdr::kWordSize, procedure.number);
  std::fill_n(at + 6 * xdr::kWordSize, 4 * xdr::kWordSize, std::byte{0});
}
// The header of a success with an empty verifier.
inline void encode_plain_success(Xid xid, std::span<std::byte, kReplyHeaderSizeMin> to) noexcept {
  xdr::store_word(to.data(), static_cast<std::uint32_t>(xid));
  xdr::store_word(to.data() + xdr::kWordSize, 1);  // REPLY; MSG_ACCEPTED, AUTH_NONE, SUCCESS are 0
  std::fill_n(to.data() + 2 * xdr::kWordSize, kReplyHeaderSizeMin - 2 * xdr::kWordSize,
              std::byte{0});
}

}  // namespace rpcrdma::oncrpc

#endif  // RPCRDMA_ONCRPC_MESSAGE_H_
