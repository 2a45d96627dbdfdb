// From the public settings to the engine's.
#ifndef RPCRDMA_RPC_ENGINE_OPTIONS_H_
#define RPCRDMA_RPC_ENGINE_OPTIONS_H_

#include <cstddef>
#include <vector>

#include "engine/types.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

// What inline thresholds can be set to, bytes.
inline constexpr std::uint32_t kInlineSizeMin = 1024, kInlineSizeMax = 65536;

// XCHAR_RBSIZ.
inline constexpr std::uint32_t kReceiveSizeId = 1;

engine::Options engine_options(const ClientOptions& options) noexcept;
engine::Options engine_options(const ServerOptions& options) noexcept;

// The private data of the connection set-up: empty in Profile::kRfc5666, which knows none.
std::vector<std::byte> set_up_data(const engine::Options& options);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ENGINE_OPTIONS_H_
