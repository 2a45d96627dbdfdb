// The server's side of the Connection Configuration Protocol (RFC 5666 §6), program 100417.
#ifndef RPCRDMA_RPC_SERVE_CONFIGURATION_SERVICE_H_
#define RPCRDMA_RPC_SERVE_CONFIGURATION_SERVICE_H_

#include <cstdint>

#include "engine/types.h"
#include "rpcrdma/options.h"
#include "rpcrdma/service.h"

namespace rpcrdma::rpc {

// Part of each server with Profile::kRfc5666. Its Receives have their full size from the start, so
// that its answers are true at once. A request may be repeated; the last one counts.
class ConfigurationService final : public Service {
 public:
  ConfigurationService(const ServerOptions& options, const engine::Options& engine_options) noexcept
      : options_(options), engine_options_(engine_options) {}

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  // RFC 5666 §11: it is protected as the data is.
  AuthStatus check_credential(std::uint32_t procedure,
                              const Credential& credential) const noexcept override;
  void call(CallContext& context) override;

 private:
  const ServerOptions& options_;
  const engine::Options& engine_options_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CONFIGURATION_SERVICE_H_
