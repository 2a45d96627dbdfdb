// From the public settings to the engine's.
#ifndef RPCRDMA_RPC_ENGINE_OPTIONS_H_
#define RPCRDMA_RPC_ENGINE_OPTIONS_H_

#include "engine/types.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

engine::Options engine_options(const ClientOptions& options) noexcept;
engine::Options engine_options(const ServerOptions& options) noexcept;

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ENGINE_OPTIONS_H_
