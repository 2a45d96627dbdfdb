#include "rpc/serve/admission.h"

#include <optional>

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

// A Call that no service was added for, where something takes such Calls as they are. Of its header
// only the XID is needed here.
std::optional<Admission> admit_whole(const oncrpc::ServiceRegistry& registry, Bytes message,
                                     oncrpc::CallHeader& header) {
  constexpr std::size_t kProcedureEnd = 6 * xdr::kWordSize;
  if (message.size() < 2 * xdr::kWordSize || !oncrpc::is_call(message)) return std::nullopt;
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  header = decoded ? *decoded : oncrpc::CallHeader{};
  header.xid = Xid{xdr::load_word(message.data())};
  if (message.size() >= kProcedureEnd) {
    const auto word = [message](std::size_t i) {
      return xdr::load_word(message.data() + i * xdr::kWordSize);
    };
    header.procedure = {word(3), word(4), word(5)};
    const auto found = registry.find(header.procedure.program, header.procedure.version);
    if (found.service != nullptr) return std::nullopt;
  }
  return Admission{.service = registry.rest(),
                   .traits = registry.rest()->traits(header.procedure.number),
                   .is_whole = true};
}

}  // namespace

Admission admit(const oncrpc::ServiceRegistry& registry, Bytes message, oncrpc::CallHeader& header,
                oncrpc::ReplyHeader& refusal) {
  if (registry.rest() != nullptr) [[unlikely]] {
    if (const auto whole = admit_whole(registry, message, header)) return *whole;
  }
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
