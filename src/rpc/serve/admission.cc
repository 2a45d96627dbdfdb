#include "rpc/serve/admission.h"

#include <algorithm>
#include <optional>

#include "rpc/serve/incoming_call.h"

namespace rpcrdma::rpc {
namespace {

using Verdict = Admission::Verdict;

constexpr Admission kRefused{.verdict = Verdict::kRefused};

// AUTH_SYS, RFC 5531 §8.2 and appendix A: no more groups, nor a longer name, than it has. Nothing
// of it is proved, so that nothing else is to be checked.
AuthStatus check_auth_sys(const Credential& credential) noexcept {
  return parse_auth_sys(credential.body) ? AuthStatus::kOk : AuthStatus::kBadCredential;
}

// The server has not checked the caller's identity, so no service may go by what the credential
// says (RFC 5531 §9). A server that gives out no short credentials of its own has forgotten any:
// the client begins anew, with another flavor.
AuthStatus denial_of_unknown(AuthFlavor flavor) noexcept {
  return flavor == AuthFlavor::kShort ? AuthStatus::kRejectedCredential
                                      : AuthStatus::kBadCredential;
}

}  // namespace

// Headers with a credential or a verifier, and those that are wrong.
Admission IncomingCall::decode_header(Bytes message, oncrpc::ReplyHeader& refusal) {
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  if (!decoded) {
    if (decoded.error().answer) {
      refusal = *decoded.error().answer;
      return kRefused;
    }
    return {.verdict = oncrpc::is_call(message) ? Verdict::kCutOff : Verdict::kNoCall};
  }
  header_ = *decoded;
  return {.header_size = reader.position()};
}

// A Call that no service was added for, where something takes such Calls as they are. Of its header
// only the XID is needed here.
std::optional<Admission> IncomingCall::admit_whole(const oncrpc::ServiceRegistry& registry,
                                                   Bytes message) {
  constexpr std::size_t kProcedureEnd = 6 * xdr::kWordSize;
  if (message.size() < 2 * xdr::kWordSize || !oncrpc::is_call(message)) return std::nullopt;
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  header_ = decoded ? *decoded : oncrpc::CallHeader{};
  header_.xid = Xid{xdr::load_word(message.data())};
  if (message.size() >= kProcedureEnd) {
    const auto word = [message](std::size_t i) {
      return xdr::load_word(message.data() + i * xdr::kWordSize);
    };
    header_.procedure = {word(3), word(4), word(5)};
    const auto found = registry.find(header_.procedure.program, header_.procedure.version);
    if (found.service != nullptr) return std::nullopt;
  }
  return Admission{.service = registry.rest(),
                   .traits = registry.rest()->traits(header_.procedure.number),
                   .is_whole = true};
}

Admission IncomingCall::find_service(const oncrpc::ServiceRegistry& registry,
                                     oncrpc::ReplyHeader& refusal) {
  const Procedure& procedure = header_.procedure;
  const auto found = registry.find(procedure.program, procedure.version);
  if (found.service == nullptr) {
    refusal = {header_.xid, oncrpc::Accepted{found.status, found.versions, {}}};
    return kRefused;
  }
  Admission admission{.service = found.service};
  if (procedure.number == 0) return admission;
  admission.traits = found.service->traits(procedure.number);
  if (admission.traits == nullptr) {
    refusal = {header_.xid, oncrpc::Accepted{AcceptStatus::kProcUnavail, {}, {}}};
    return kRefused;
  }
  AuthStatus auth = found.service->check_credential(procedure.number, header_.credential);
  if (auth == AuthStatus::kOk && !registry.allows(procedure, caller().protection)) {
    auth = AuthStatus::kTooWeak;
  }
  if (auth != AuthStatus::kOk) [[unlikely]] {
    refusal = {header_.xid, oncrpc::AuthError{auth}};
    return kRefused;
  }
  return admission;
}

// More of an accepted Call is there. Where its message was read again, out of the peer's memory, it
// may say something else by now.
Admission IncomingCall::admit_again(Bytes message) const {
  const Bytes kept(kept_header_);
  if (message.size() < kept.size() || !std::ranges::equal(message.first(kept.size()), kept)) {
    return {.verdict = Verdict::kCutOff};
  }
  return {
      .service = service_, .traits = traits_, .header_size = header_size_, .is_whole = is_whole_};
}

void IncomingCall::keep_header(Bytes message) {
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  // A whole message may have a header that only its service can read.
  const std::size_t size = decoded ? reader.position() : message.size();
  kept_header_.assign(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(size));
  if (!decoded) return;
  xdr::Reader kept(kept_header_);
  header_ = *oncrpc::decode_call(kept);
  if (auth_.with != nullptr) auth_.name(header_, kept_header_);
}

Admission IncomingCall::admit(const oncrpc::ServiceRegistry& registry, Bytes message,
                              oncrpc::ReplyHeader& refusal) {
  if (service_ != nullptr) [[unlikely]]
    return admit_again(message);
  if (registry.rest() != nullptr) [[unlikely]] {
    if (const auto whole = admit_whole(registry, message)) return *whole;
  }
  std::size_t header_size = oncrpc::kCallHeaderSizeMin;
  const bool is_plain = oncrpc::take_plain_call(message, header_);
  if (!is_plain || registry.checks_none()) [[unlikely]] {
    if (!is_plain) {
      const Admission decoded = decode_header(message, refusal);
      if (decoded.verdict != Verdict::kAccepted) return decoded;
      header_size = decoded.header_size;
    }
    ServerAuth* const auth = registry.auth_of(header_.credential.flavor);
    AuthStatus status = AuthStatus::kOk;
    if (auth_.is_accepted) {
      auth_.name(header_, message);
    } else if (auth != nullptr) {
      const StepEnd end = auth_.accept(*auth, header_, message, peer_address(), step_);
      if (end == StepEnd::kLater) return {.verdict = Verdict::kLater};
      status = accepted();
      if (!why_ending().empty()) return {.verdict = Verdict::kEnds};
    } else if (header_.credential.flavor == AuthFlavor::kSys) {
      status = check_auth_sys(header_.credential);
    } else if (header_.credential.flavor != AuthFlavor::kNone) {
      status = denial_of_unknown(header_.credential.flavor);
    }
    if (status != AuthStatus::kOk) {
      refusal = {header_.xid, oncrpc::AuthError{status}};
      return kRefused;
    }
  }
  Admission admission = find_service(registry, refusal);
  admission.header_size = header_size;
  return admission;
}

}  // namespace rpcrdma::rpc
