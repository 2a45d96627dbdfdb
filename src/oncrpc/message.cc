#include "oncrpc/message.h"

#include "base/assert.h"

namespace rpcrdma::oncrpc {
namespace {

// msg_type and reply_stat, RFC 5531 §9.
constexpr std::uint32_t kCall = 0;      // CALL
constexpr std::uint32_t kReply = 1;     // REPLY
constexpr std::uint32_t kAccepted = 0;  // MSG_ACCEPTED
constexpr std::uint32_t kDenied = 1;    // MSG_DENIED

Credential read_credential(xdr::Reader& reader, std::string_view field) {
  Credential credential;
  credential.flavor = AuthFlavor{reader.u32(field)};
  credential.body = reader.opaque(kAuthBodySizeMax, field);
  return credential;
}

void write_credential(const Credential& credential, xdr::Writer& writer) noexcept {
  RPCRDMA_ASSERT(credential.body.size() <= kAuthBodySizeMax, "credential over its limit");
  writer.u32(static_cast<std::uint32_t>(credential.flavor));
  writer.opaque(credential.body);
}

VersionRange read_versions(xdr::Reader& reader) {
  const std::uint32_t low = reader.u32("low");
  return {low, reader.u32("high")};
}

void write_versions(const VersionRange& versions, xdr::Writer& writer) noexcept {
  writer.u32(versions.low);
  writer.u32(versions.high);
}

// Reads an enumeration whose defined values are 0 to `last`.
template <class Enum>
Enum read_enum(xdr::Reader& reader, Enum last, std::string_view field) {
  const std::uint32_t value = reader.u32(field);
  if (value > static_cast<std::uint32_t>(last)) {
    reader.fail(xdr::Errc::kBadEnum, field);
    return Enum{};
  }
  return Enum{value};
}

Unexpected<BadCall> bad_call(const xdr::Reader& reader, std::optional<ReplyHeader> answer) {
  return Unexpected<BadCall>(BadCall{reader.error(), answer});
}

// The answer to a Call whose credential or verifier was refused; none when it is just cut off.
std::optional<ReplyHeader> auth_answer(const xdr::Reader& reader, Xid xid, AuthStatus why) {
  if (reader.error().code == xdr::Errc::kTruncated) return std::nullopt;
  return ReplyHeader{xid, AuthError{why}};
}

Accepted read_accepted(xdr::Reader& reader) {
  Accepted accepted;
  accepted.verifier = read_credential(reader, "verifier");
  accepted.status = read_enum(reader, AcceptStatus::kSystemErr, "accept_stat");
  if (accepted.status == AcceptStatus::kProgMismatch) accepted.versions = read_versions(reader);
  return accepted;
}

void write_body(const Accepted& body, xdr::Writer& writer) noexcept {
  writer.u32(kAccepted);
  write_credential(body.verifier, writer);
  writer.u32(static_cast<std::uint32_t>(body.status));
  if (body.status == AcceptStatus::kProgMismatch) write_versions(body.versions, writer);
}

void write_body(const RpcMismatch& body, xdr::Writer& writer) noexcept {
  writer.u32(kDenied);
  writer.u32(static_cast<std::uint32_t>(RejectStatus::kRpcMismatch));
  write_versions(body.versions, writer);
}

void write_body(const AuthError& body, xdr::Writer& writer) noexcept {
  writer.u32(kDenied);
  writer.u32(static_cast<std::uint32_t>(RejectStatus::kAuthError));
  writer.u32(static_cast<std::uint32_t>(body.why));
}

std::uint32_t word(Bytes bytes, std::size_t index) noexcept {
  return xdr::load_word(bytes.data() + index * xdr::kWordSize);
}

}  // namespace

bool take_plain_call(Bytes bytes, CallHeader& header) noexcept {
  if (bytes.size() < kCallHeaderSizeMin || word(bytes, 1) != kCall ||
      word(bytes, 2) != kRpcVersion || !xdr::are_four_zero(bytes.data() + 6 * xdr::kWordSize)) {
    return false;
  }
  header.xid = Xid{word(bytes, 0)};
  header.procedure.program = word(bytes, 3);
  header.procedure.version = word(bytes, 4);
  header.procedure.number = word(bytes, 5);
  // One by one: copied from each other they cost a store-forwarding stall.
  header.credential = {};
  header.verifier = {};
  return true;
}

bool is_plain_success(Bytes bytes, Xid xid) noexcept {
  return bytes.size() >= kReplyHeaderSizeMin && word(bytes, 0) == static_cast<std::uint32_t>(xid) &&
         word(bytes, 1) == kReply && xdr::are_four_zero(bytes.data() + 2 * xdr::kWordSize);
}

bool is_call(Bytes message) noexcept {
  return message.size() < 2 * xdr::kWordSize || word(message, 1) == kCall;
}

bool is_reply(Bytes message, Xid xid) noexcept {
  return message.size() >= 2 * xdr::kWordSize && Xid{word(message, 0)} == xid &&
         word(message, 1) == kReply;
}

Expected<CallHeader, BadCall> decode_call(xdr::Reader& reader) {
  CallHeader header{};
  header.xid = Xid{reader.u32("xid")};
  if (reader.u32("msg_type") != kCall) reader.fail(xdr::Errc::kBadEnum, "msg_type");
  if (!reader.ok()) return bad_call(reader, std::nullopt);

  const std::uint32_t rpc_version = reader.u32("rpcvers");
  if (!reader.ok()) return bad_call(reader, std::nullopt);
  if (rpc_version != kRpcVersion) {
    // In another version the rest may have another layout; only the XID surely means the same.
    reader.fail(xdr::Errc::kBadEnum, "rpcvers");
    return bad_call(reader, ReplyHeader{header.xid, RpcMismatch{{kRpcVersion, kRpcVersion}}});
  }
  header.procedure.program = reader.u32("prog");
  header.procedure.version = reader.u32("vers");
  header.procedure.number = reader.u32("proc");
  header.credential = read_credential(reader, "credential");
  if (!reader.ok()) {
    return bad_call(reader, auth_answer(reader, header.xid, AuthStatus::kBadCredential));
  }
  header.verifier = read_credential(reader, "verifier");
  if (!reader.ok()) {
    return bad_call(reader, auth_answer(reader, header.xid, AuthStatus::kBadVerifier));
  }
  return header;
}

Expected<ReplyHeader, xdr::DecodeError> decode_reply(xdr::Reader& reader) {
  ReplyHeader header{};
  header.xid = Xid{reader.u32("xid")};
  if (reader.u32("msg_type") != kReply) reader.fail(xdr::Errc::kBadEnum, "msg_type");
  const std::uint32_t reply_status = reader.u32("reply_stat");
  if (reply_status > kDenied) reader.fail(xdr::Errc::kBadEnum, "reply_stat");
  if (reply_status == kAccepted) {
    header.body = read_accepted(reader);
    return reader.finish(header);
  }
  switch (read_enum(reader, RejectStatus::kAuthError, "reject_stat")) {
    case RejectStatus::kRpcMismatch:
      header.body = RpcMismatch{read_versions(reader)};
      break;
    case RejectStatus::kAuthError:
      header.body = AuthError{read_enum(reader, AuthStatus::kGssContextProblem, "auth_stat")};
      break;
  }
  return reader.finish(header);
}

void encode_call(const CallHeader& header, xdr::Writer& writer) noexcept {
  writer.u32(static_cast<std::uint32_t>(header.xid));
  writer.u32(kCall);
  writer.u32(kRpcVersion);
  writer.u32(header.procedure.program);
  writer.u32(header.procedure.version);
  writer.u32(header.procedure.number);
  write_credential(header.credential, writer);
  write_credential(header.verifier, writer);
}

void encode_reply(const ReplyHeader& header, xdr::Writer& writer) noexcept {
  const auto* accepted = std::get_if<Accepted>(&header.body);
  if (accepted != nullptr && accepted->status == AcceptStatus::kSuccess &&
      is_plain(accepted->verifier)) [[likely]] {
    return writer.words<kReplyHeaderSizeMin / xdr::kWordSize>(
        {static_cast<std::uint32_t>(header.xid), kReply, kAccepted, 0, 0, 0});
  }
  writer.u32(static_cast<std::uint32_t>(header.xid));
  writer.u32(kReply);
  std::visit([&writer](const auto& body) { write_body(body, writer); }, header.body);
}

}  // namespace rpcrdma::oncrpc
