#include "stream/call.h"

#include <algorithm>
#include <initializer_list>

#include "rpcrdma/xdr.h"
#include "stream/record.h"

namespace rpcrdma::stream {
namespace {

// msg_type and reply_stat, RFC 5531 §9.
constexpr std::uint32_t kCall = 0;
constexpr std::uint32_t kReply = 1;
constexpr std::uint32_t kAccepted = 0;
constexpr std::uint32_t kDenied = 1;

std::vector<std::byte> record_of(std::initializer_list<std::uint32_t> words, Bytes body) {
  const std::size_t size = words.size() * xdr::kWordSize + body.size();
  std::vector<std::byte> record(xdr::kWordSize + size);
  xdr::Writer writer(record);
  writer.u32(kLastFragment | static_cast<std::uint32_t>(size));
  for (const std::uint32_t word : words) writer.u32(word);
  std::ranges::copy(body, record.end() - static_cast<std::ptrdiff_t>(body.size()));
  return record;
}

}  // namespace

std::optional<OpenedCall> open_call(Bytes record) {
  xdr::Reader reader(record);
  OpenedCall call{.xid = reader.u32("xid"), .rpc_version = 0};
  if (reader.u32("msg_type") != kCall) reader.fail(xdr::Errc::kBadEnum, "msg_type");
  call.rpc_version = reader.u32("rpcvers");
  if (!reader.ok()) return std::nullopt;
  if (call.rpc_version != kRpcVersion) return call;
  call.procedure.program = reader.u32("prog");
  call.procedure.version = reader.u32("vers");
  call.procedure.number = reader.u32("proc");
  for (const auto* const field : {"credential", "verifier"}) {
    reader.u32(field);
    reader.opaque(kAuthBodySizeMax, field);
  }
  if (!reader.ok()) return std::nullopt;
  call.arguments = reader.rest();
  return call;
}

std::vector<std::byte> accepted_record(std::uint32_t xid, AcceptStatus status, Bytes body) {
  constexpr std::uint32_t kNoVerifier = 0;  // AUTH_NONE, and an empty body
  return record_of(
      {xid, kReply, kAccepted, kNoVerifier, kNoVerifier, static_cast<std::uint32_t>(status)}, body);
}

std::vector<std::byte> rpc_mismatch_record(std::uint32_t xid) {
  const auto why = static_cast<std::uint32_t>(RejectStatus::kRpcMismatch);
  return record_of({xid, kReply, kDenied, why, kRpcVersion, kRpcVersion}, {});
}

}  // namespace rpcrdma::stream
