// Judges a Call by its RPC header, over any transport.
#include <algorithm>

#include "rpc/serve/incoming_call.h"
#include "rpc/serve/serving.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::size_t kProcedureEnd = 6 * xdr::kWordSize;  // bytes of a Call up to its credential

// Checks an AUTH_SYS credential by RFC 5531 §8.2 and appendix A: its groups and its name have
// limits. Nothing of it is proved, so that there is nothing else to check.
AuthStatus check_auth_sys(const Credential& credential) noexcept {
  return parse_auth_sys(credential.body) ? AuthStatus::kOk : AuthStatus::kBadCredential;
}

// Denies a flavor that the server does not check: no service may go by what such a credential says
// (RFC 5531 §9). A server that gives out no short credentials of its own has forgotten any:
// the client begins anew, with another flavor.
AuthStatus denial_of_unknown(AuthFlavor flavor) noexcept {
  return flavor == AuthFlavor::kShort ? AuthStatus::kRejectedCredential
                                      : AuthStatus::kBadCredential;
}

}  // namespace

// Reads headers with a credential or a verifier, and those that are wrong.
IncomingCall::Verdict IncomingCall::decode_header(Bytes message, oncrpc::ReplyHeader& refusal) {
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  if (!decoded) {
    if (decoded.error().answer) {
      refusal = *decoded.error().answer;
      return Verdict::kRefused;
    }
    return oncrpc::is_call(message) ? Verdict::kCutOff : Verdict::kNoCall;
  }
  header_ = *decoded;
  header_size_ = reader.position();
  return Verdict::kAccepted;
}

// Accepts a Call that no service was added for, if a MessageService takes such Calls as they are.
// Only the XID of its header is needed here.
bool IncomingCall::admit_whole(const oncrpc::ServiceRegistry& registry, Bytes message) {
  if (message.size() < 2 * xdr::kWordSize || !oncrpc::is_call(message)) return false;
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
    if (found.service != nullptr) return false;
  }
  service_ = registry.rest();
  traits_ = service_->traits(header_.procedure.number);
  header_size_ = 0;
  is_whole_ = true;
  return true;
}

IncomingCall::Verdict IncomingCall::find_service(const oncrpc::ServiceRegistry& registry,
                                                 oncrpc::ReplyHeader& refusal) {
  const Procedure& procedure = header_.procedure;
  const auto found = registry.find(procedure.program, procedure.version);
  if (found.service == nullptr) {
    refusal = {header_.xid, oncrpc::Accepted{found.status, found.versions, {}}};
    return Verdict::kRefused;
  }
  if (procedure.number == 0) {
    traits_ = nullptr;
  } else {
    traits_ = found.service->traits(procedure.number);
    if (traits_ == nullptr) {
      refusal = {header_.xid, oncrpc::Accepted{AcceptStatus::kProcUnavail, {}, {}}};
      return Verdict::kRefused;
    }
    AuthStatus auth = found.service->check_credential(procedure.number, header_.credential);
    if (auth == AuthStatus::kOk && !registry.allows(procedure, caller().protection)) {
      auth = AuthStatus::kTooWeak;
    }
    if (auth != AuthStatus::kOk) [[unlikely]] {
      refusal = {header_.xid, oncrpc::AuthError{auth}};
      return Verdict::kRefused;
    }
  }
  service_ = found.service;
  return Verdict::kAccepted;
}

void IncomingCall::keep_header(Bytes message) {
  xdr::Reader reader(message);
  const auto decoded = oncrpc::decode_call(reader);
  // A whole message may have a header that only its service can read. The bytes that admit_whole()
  // goes by are kept: the rest may be as long as a Call may be, and nobody has counted that.
  const std::size_t size = decoded ? reader.position() : std::min(message.size(), kProcedureEnd);
  kept_header_.assign(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(size));
  if (!decoded) return;
  xdr::Reader kept(kept_header_);
  header_ = *oncrpc::decode_call(kept);
  if (auth_.with != nullptr) auth_.name(header_, kept_header_);
}

bool IncomingCall::is_still(Bytes message) const noexcept {
  const Bytes kept(kept_header_);
  return message.size() >= kept.size() && std::ranges::equal(message.first(kept.size()), kept);
}

IncomingCall::Verdict IncomingCall::admit(const oncrpc::ServiceRegistry& registry, Bytes message,
                                          oncrpc::ReplyHeader& refusal) {
  if (registry.rest() != nullptr && admit_whole(registry, message)) [[unlikely]] {
    return Verdict::kAccepted;
  }
  header_size_ = oncrpc::kCallHeaderSizeMin;
  const bool is_plain = oncrpc::take_plain_call(message, header_);
  if (!is_plain || registry.checks_none()) [[unlikely]] {
    if (!is_plain) {
      const Verdict decoded = decode_header(message, refusal);
      if (decoded != Verdict::kAccepted) return decoded;
    }
    const Verdict known = authenticate(registry, message, refusal);
    if (known != Verdict::kAccepted) return known;
  }
  return find_service(registry, refusal);
}

IncomingCall::Verdict IncomingCall::authenticate(const oncrpc::ServiceRegistry& registry,
                                                 Bytes message, oncrpc::ReplyHeader& refusal) {
  const AuthFlavor flavor = header_.credential.flavor;
  if (ServerAuth* const auth = registry.auth_of(flavor); auth != nullptr) {
    const StepEnd end = auth_.accept(*auth, header_, message, peer_address(), step_);
    return end == StepEnd::kPending ? Verdict::kPending : check_accepted(refusal);
  }
  AuthStatus status = AuthStatus::kOk;
  if (flavor == AuthFlavor::kSys) {
    status = check_auth_sys(header_.credential);
  } else if (flavor != AuthFlavor::kNone) {
    status = denial_of_unknown(flavor);
  }
  if (status == AuthStatus::kOk) return Verdict::kAccepted;
  refusal = {header_.xid, oncrpc::AuthError{status}};
  return Verdict::kRefused;
}

// Reads the decision of accept().
IncomingCall::Verdict IncomingCall::check_accepted(oncrpc::ReplyHeader& refusal) noexcept {
  if (!why_ending().empty()) return Verdict::kEnds;
  if (auth_.call.status == AuthStatus::kOk) return Verdict::kAccepted;
  refusal = {header_.xid, oncrpc::AuthError{auth_.call.status}};
  return Verdict::kRefused;
}

IncomingCall::Verdict IncomingCall::finish_accept(const oncrpc::ServiceRegistry& registry,
                                                  oncrpc::ReplyHeader& refusal) {
  const Verdict known = check_accepted(refusal);
  return known == Verdict::kAccepted ? find_service(registry, refusal) : known;
}

}  // namespace rpcrdma::rpc
