// RPCSEC_GSS of clients and servers, as their options ask for it.
#ifndef RPCRDMA_RPC_SECURITY_H_
#define RPCRDMA_RPC_SECURITY_H_

#include <functional>
#include <memory>
#include <string_view>

#include "gss/client_auth.h"
#include "gss/executor.h"
#include "gss/server_auth.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

// Completes the options of a client: a target without a host gets this host. Fails if the mechanism
// is not there.
Expected<ClientOptions, Error> with_security(ClientOptions options, std::string_view host);

// Has the authenticator of a client's calls, if ClientOptions::auth asks for one.
class ClientSecurity {
 public:
  // `now` is called on the client's thread.
  ClientSecurity(const Authentication& wanted, std::function<Instant()> now);
  // Null: AUTH_NONE and AUTH_SYS are what there is.
  ClientAuth* auth() const noexcept { return auth_; }

 private:
  void own(std::unique_ptr<ClientAuth> auth);
  std::unique_ptr<ClientAuth> make_gss(const gss::ClientSecurity& security,
                                       std::function<Instant()> now);

  ClientAuth* auth_ = nullptr;
  std::unique_ptr<gss::Mechanism> mechanism_;
  std::unique_ptr<ClientAuth> own_;
};

class ServerSecurity {
 public:
  // `now` is called on any thread.
  static Expected<std::unique_ptr<ServerSecurity>, Error> make(const gss::ServerSecurity& security,
                                                               std::function<Instant()> now);
  ServerAuth& auth() noexcept { return *auth_; }
  std::size_t contexts() const { return auth_->contexts().size(); }  // from any thread

 private:
  std::unique_ptr<gss::Mechanism> mechanism_;
  std::unique_ptr<gss::Workers> workers_;
  std::unique_ptr<gss::ServerGss> auth_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SECURITY_H_
