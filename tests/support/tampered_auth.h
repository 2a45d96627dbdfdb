// RPCSEC_GSS of a server, with changes: for what a client has to bear.
#ifndef RPCRDMA_TESTS_SUPPORT_TAMPERED_AUTH_H_
#define RPCRDMA_TESTS_SUPPORT_TAMPERED_AUTH_H_

#include <functional>
#include <optional>

#include "gss/message.h"
#include "gss/server_auth.h"
#include "rpcrdma/auth.h"

namespace rpcrdma::test {

// A server that answers as it should, until a test changes that behind one of its steps.
class Tampered final : public ServerAuth {
 public:
  using Change = std::function<void(CallAcceptance& call)>;
  // `inner` outlives it.
  explicit Tampered(gss::ServerGss& inner) : inner_(inner) {}

  StepEnd accept(CallAcceptance& call, AuthStep& step) override {
    return changed(inner_.accept(call, step), at_accept, call);
  }
  StepEnd unwrap(CallAcceptance& call, AuthStep& step) override {
    return changed(inner_.unwrap(call, step), at_unwrap, call);
  }
  StepEnd seal(CallAcceptance& call, AuthStep& step) override {
    return changed(inner_.seal(call, step), at_seal, call);
  }
  void forget(CallAcceptance& call) noexcept override { inner_.forget(call); }

  Change at_accept, at_unwrap, at_seal;

 private:
  static StepEnd changed(StepEnd end, const Change& change, CallAcceptance& call) {
    if (change) change(call);
    return end;
  }
  gss::ServerGss& inner_;
};

// nullopt: the credential says nothing that can be read.
inline std::optional<gss::Control> control_of(const CallAcceptance& call) {
  const auto credential = gss::decode_credential(call.credential.body);
  return credential ? std::optional(gss::Control{credential->control}) : std::nullopt;
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_TAMPERED_AUTH_H_
