#include "explain/rpc_words.h"

#include "rpcrdma/oncrpc.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::explain {
namespace {

constexpr std::uint32_t kGss = 6;

struct OpaqueAuth {
  std::uint32_t flavor = 0;
  Bytes body;
};

OpaqueAuth read_auth(xdr::Reader& reader) {
  OpaqueAuth auth;
  auth.flavor = reader.u32("flavor");
  auth.body = reader.opaque(kAuthBodySizeMax, "body");
  return auth;
}

// rpc_gss_cred_t of version 1, RFC 2203 §5.
std::optional<GssFact> read_gss(Bytes body) {
  xdr::Reader reader(body);
  const std::uint32_t version = reader.u32("version");
  GssFact gss;
  gss.control = reader.u32("procedure");
  gss.sequence = reader.u32("sequence number");
  gss.service = reader.u32("service");
  if (!reader.ok() || version != 1) return std::nullopt;
  return gss;
}

RpcFault fault_of(const xdr::Reader& reader) {
  if (reader.ok()) return RpcFault::kNone;
  return reader.error().code == xdr::Errc::kOverLimit ? RpcFault::kCredential : RpcFault::kShort;
}

// Arguments whose last word is a count, when nothing else can follow it (READ of NFS version 3).
void read_count(Bytes arguments, CallFact& call) {
  if (arguments.size() < 4 || arguments.size() % 4 != 0) return;
  call.asked_count = xdr::load_word(arguments.data() + arguments.size() - 4);
}

}  // namespace

std::optional<RpcStart> rpc_start(Bytes message) noexcept {
  if (message.size() < 8) return std::nullopt;
  return RpcStart{xdr::load_word(message.data()), xdr::load_word(message.data() + 4)};
}

RpcFault read_rpc_call(Bytes message, CallFact& call) {
  xdr::Reader reader(message);
  reader.u32("xid");
  const std::uint32_t type = reader.u32("msg_type");
  const std::uint32_t rpc_version = reader.u32("rpcvers");
  if (!reader.ok()) return RpcFault::kShort;
  if (type != 0) return RpcFault::kType;
  if (rpc_version != 2) return RpcFault::kVersion;
  call.program = reader.u32("prog");
  call.version = reader.u32("vers");
  call.procedure = reader.u32("proc");
  if (!reader.ok()) return RpcFault::kShort;
  call.has_rpc_call = true;
  const OpaqueAuth credential = read_auth(reader);
  if (!reader.ok()) return fault_of(reader);
  call.flavor = credential.flavor;
  if (credential.flavor == kGss) call.gss = read_gss(credential.body);
  read_auth(reader);
  if (reader.ok() && !call.gss) read_count(reader.rest(), call);
  return fault_of(reader);
}

RpcFault read_rpc_reply(Bytes message, CallFact& call) {
  xdr::Reader reader(message);
  reader.u32("xid");
  const std::uint32_t type = reader.u32("msg_type");
  call.reply_stat = reader.u32("reply_stat");
  if (!reader.ok()) return RpcFault::kShort;
  if (type != 1) return RpcFault::kType;
  if (call.reply_stat > 1) return RpcFault::kBadValue;
  if (call.reply_stat == 1) {
    const std::uint32_t reject = reader.u32("reject_stat");
    call.auth_stat = reader.u32("auth_stat");
    if (reject == 0) call.auth_stat = 0;
    call.accept_stat = reject;
    call.has_rpc_reply = reader.ok();
    return fault_of(reader);
  }
  read_auth(reader);
  call.accept_stat = reader.u32("accept_stat");
  call.has_rpc_reply = reader.ok();
  if (!reader.ok()) return fault_of(reader);
  if (call.accept_stat > 5) return RpcFault::kBadValue;
  const bool is_protected = call.gss && call.gss->service > 1 && call.gss->control == 0;
  if (call.accept_stat == 0 && !is_protected && reader.rest().size() >= 4) {
    call.status = reader.u32("status");
  }
  // With integrity the results stand behind the length of the body and the sequence number.
  if (is_protected && call.gss->service == 2 && reader.rest().size() >= 12) {
    reader.skip(8, "databody");
    call.status = reader.u32("status");
  }
  return RpcFault::kNone;
}

std::size_t arguments_at(Bytes message) noexcept {
  xdr::Reader reader(message);
  reader.skip(24, "header");
  read_auth(reader);
  read_auth(reader);
  return reader.ok() ? reader.position() : 0;
}

std::size_t results_offset(Bytes message) noexcept {
  xdr::Reader reader(message);
  reader.skip(8, "header");
  const std::uint32_t is_denied = reader.u32("reply_stat");
  read_auth(reader);
  const std::uint32_t status = reader.u32("accept_stat");
  return reader.ok() && is_denied == 0 && status == 0 ? reader.position() : 0;
}

}  // namespace rpcrdma::explain
