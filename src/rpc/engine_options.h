// From the public settings to the engine's.
#ifndef RPCRDMA_RPC_ENGINE_OPTIONS_H_
#define RPCRDMA_RPC_ENGINE_OPTIONS_H_

#include <cstddef>
#include <vector>

#include "engine/types.h"
#include "engine/v2/option_port.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

// The bounds of inline thresholds, bytes.
inline constexpr std::uint32_t kInlineSizeMin = 1024, kInlineSizeMax = 65536;
inline constexpr std::uint32_t kInlineArgumentsMax = 131072;

// XCHAR_RBSIZ.
inline constexpr std::uint32_t kReceiveSizeId = 1;

// They name the characteristics in `options`, which outlive them.
engine::Options engine_options(const ClientOptions& options) noexcept;
engine::Options engine_options(const ServerOptions& options) noexcept;

// Returns the size of a server's Receives that hold the largest bulk arguments that may stay inline
// (ConnectionOptions::inline_arguments_max), bytes; 0: its usual ones hold them, or there are none.
std::uint32_t long_receive_size(const ServerOptions& options) noexcept;

// The private data of the connection set-up: empty in Profile::kRfc5666, which knows none.
std::vector<std::byte> set_up_data(const engine::Options& options);

// Tells the application which of its characteristics the peer has changed.
inline void tell_changes(engine::OptionPort& port) {
  while (const CharacteristicType* type = port.poll_changed()) {
    if (type->on_change) {
      type->on_change(port.characteristics().experimental().peer(type->id)->data());
    }
  }
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ENGINE_OPTIONS_H_
