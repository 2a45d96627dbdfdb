#include "rpcrdma/oncrpc.h"

namespace rpcrdma {

std::string_view to_string(AcceptStatus status) noexcept {
  switch (status) {
    case AcceptStatus::kSuccess:
      return "success";
    case AcceptStatus::kProgUnavail:
      return "program unavailable";
    case AcceptStatus::kProgMismatch:
      return "program version not supported";
    case AcceptStatus::kProcUnavail:
      return "procedure unavailable";
    case AcceptStatus::kGarbageArgs:
      return "arguments cannot be decoded";
    case AcceptStatus::kSystemErr:
      return "system error of the server";
  }
  return "unknown accept status";
}

std::string_view to_string(RejectStatus status) noexcept {
  switch (status) {
    case RejectStatus::kRpcMismatch:
      return "RPC version not supported";
    case RejectStatus::kAuthError:
      return "authentication error";
  }
  return "unknown reject status";
}

std::string_view to_string(AuthStatus status) noexcept {
  switch (status) {
    case AuthStatus::kOk:
      return "ok";
    case AuthStatus::kBadCredential:
      return "bad credential";
    case AuthStatus::kRejectedCredential:
      return "credential rejected";
    case AuthStatus::kBadVerifier:
      return "bad verifier";
    case AuthStatus::kRejectedVerifier:
      return "verifier rejected";
    case AuthStatus::kTooWeak:
      return "authentication too weak";
    case AuthStatus::kInvalidResponse:
      return "bad verifier in the reply";
    case AuthStatus::kFailed:
      return "authentication failed";
    case AuthStatus::kKerbGeneric:
      return "Kerberos error";
    case AuthStatus::kTimeExpired:
      return "credential expired";
    case AuthStatus::kTicketFile:
      return "problem with the ticket file";
    case AuthStatus::kDecode:
      return "authenticator cannot be decoded";
    case AuthStatus::kNetAddress:
      return "wrong address in the ticket";
    case AuthStatus::kGssCredentialProblem:
      return "no GSS credential for the user";
    case AuthStatus::kGssContextProblem:
      return "problem with the GSS context";
  }
  return "unknown authentication status";
}

std::optional<AuthSys> parse_auth_sys(Bytes body) noexcept {
  if (body.size() > kAuthBodySizeMax) return std::nullopt;
  xdr::Reader reader(body);
  AuthSys value;
  value.stamp = reader.u32("stamp");
  value.machine_name = reader.string(kMachineNameSizeMax, "machinename");
  value.uid = reader.u32("uid");
  value.gid = reader.u32("gid");
  value.gid_count = reader.u32("gids");
  if (value.gid_count > kGidsMax) reader.fail(xdr::Errc::kOverLimit, "gids");
  for (std::uint32_t i = 0; i < value.gid_count && reader.ok(); ++i) {
    value.gids[i] = reader.u32("gids");
  }
  const auto parsed = reader.finish_all(value);
  if (!parsed) return std::nullopt;
  return *parsed;
}

Expected<std::size_t, xdr::Errc> encode_auth_sys(const AuthSys& value,
                                                 MutableBytes output) noexcept {
  if (value.machine_name.size() > kMachineNameSizeMax || value.gid_count > kGidsMax) {
    return Unexpected<xdr::Errc>(xdr::Errc::kOverLimit);
  }
  xdr::Writer writer(output);
  writer.u32(value.stamp);
  writer.string(value.machine_name);
  writer.u32(value.uid);
  writer.u32(value.gid);
  writer.u32(value.gid_count);
  for (const std::uint32_t gid : value.further_gids()) writer.u32(gid);
  return writer.finish();
}

}  // namespace rpcrdma
