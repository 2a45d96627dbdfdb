#include "rpc/provider_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/types.h"
#include "rdma/siwarp/provider.h"
#include "rpc/errors.h"

namespace rpcrdma::rpc {
namespace {

// Of a server's call, which has more: 24 loans, 8 results of the service's own.
constexpr std::uint32_t kRegionsPerCall = 32;

// `calls_max` Calls are made and `credits` are answered at a time, or the other way round.
Expected<std::unique_ptr<rdma::Provider>, Error> make(const ProviderOptions& provider,
                                                      std::uint32_t calls_max,
                                                      std::uint32_t credits,
                                                      std::uint32_t backward_calls,
                                                      bool share_port) {
  if (provider.name != "auto" && provider.name != "siwarp") {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, "choosing a provider", provider.name,
              fmt::format("this build has no provider '{}'; it has: siwarp", provider.name)});
  }
  rdma::siwarp::Options options;
  options.crc = provider.crc;
  options.share_port = share_port;
  options.capture_file = provider.capture_file;
  options.capture_bytes_max = provider.capture_bytes_max;
  options.setup_timeout_initiator = provider.setup_timeout_client;
  options.setup_timeout_responder = provider.setup_timeout_server;
  const std::uint32_t calls = std::bit_ceil(std::clamp(std::max(calls_max, credits), 1U, 4096U) +
                                            std::min(backward_calls, 1024U));
  options.queue_depth = std::max(options.queue_depth, 4 * calls);
  // Room for every call to be as large as it may be. A call that had to wait for another's memory
  // to be revoked would wait in front of the very work that revokes it.
  options.exposures =
      std::max(options.exposures,
               static_cast<std::uint32_t>(engine::kExposuresMax) * std::min(calls_max, 4096U));
  options.regions = std::max(options.regions, kRegionsPerCall * calls);
  auto made = rdma::siwarp::make_provider(options);
  if (!made) return Unexpected<Error>(to_error(made.error(), "opening the provider", "siwarp"));
  return std::move(*made);
}

}  // namespace

Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ClientOptions& options) {
  return make(options.provider, options.calls_max, options.connection.credits,
              options.backward_calls, false);
}
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ServerOptions& options) {
  return make(options.provider, 0, options.connection.credits, options.backward_calls,
              options.share_port);
}

}  // namespace rpcrdma::rpc
