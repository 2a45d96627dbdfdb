#include "rpc/serve/admission.h"

namespace rpcrdma::rpc {
namespace {

using Verdict = Admission::Verdict;

constexpr Admission kRefused{.verdict = Verdict::kRefused};

// Headers with a credential or a verifier, and those that are wrong.
Admission decode_header(Bytes message, oncrpc::CallHeader& header, oncrpc::ReplyHeader& refusal) {
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  if (!decoded) {
    if (decoded.error().answer) {
      refusal = *decoded.error().answer;
      return kRefused;
    }
    return {.verdict = oncrpc::is_call(message) ? Verdict::kCutOff : Verdict::kNoCall};
  }
  header = *decoded;
  const Credential& credential = decoded->credential;
  if (credential.flavor == AuthFlavor::kSys && !parse_auth_sys(credential.body)) {
    // RFC 5531 §8.2, appendix A: more groups or a longer name than AUTH_SYS has.
    refusal = {decoded->xid, oncrpc::AuthError{AuthStatus::kBadCredential}};
    return kRefused;
  }
  return {.header_size = reader.position()};
}

}  // namespace

Admission admit(const oncrpc::ServiceRegistry& registry, Bytes message, oncrpc::CallHeader& header,
                oncrpc::ReplyHeader& refusal) {
  Admission admission;
  if (oncrpc::take_plain_call(message, header)) [[likely]] {
    admission.header_size = oncrpc::kCallHeaderSizeMin;
  } else {
    admission = decode_header(message, header, refusal);
    if (admission.verdict != Verdict::kAccepted) return admission;
  }
  const Procedure& procedure = header.procedure;
  const auto found = registry.find(procedure.program, procedure.version);
  if (found.service == nullptr) {
    refusal = {header.xid, oncrpc::Accepted{found.status, found.versions, {}}};
    return kRefused;
  }
  admission.service = found.service;
  if (procedure.number == 0) return admission;
  admission.traits = found.service->traits(procedure.number);
  if (admission.traits == nullptr) {
    refusal = {header.xid, oncrpc::Accepted{AcceptStatus::kProcUnavail, {}, {}}};
    return kRefused;
  }
  const AuthStatus auth = found.service->check_credential(procedure.number, header.credential);
  if (auth != AuthStatus::kOk) [[unlikely]] {
    refusal = {header.xid, oncrpc::AuthError{auth}};
    return kRefused;
  }
  return admission;
}

}  // namespace rpcrdma::rpc
