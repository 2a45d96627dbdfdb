#include "rpc/provider_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rdma/siwarp/provider.h"
#include "rpc/errors.h"

namespace rpcrdma::rpc {

Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ProviderOptions& provider,
                                                               const ConnectionOptions& connection,
                                                               std::uint32_t calls_max) {
  if (provider.name != "auto" && provider.name != "siwarp") {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, "choosing a provider", provider.name,
              fmt::format("this build has no provider '{}'; it has: siwarp", provider.name)});
  }
  rdma::siwarp::Options options;
  options.crc = provider.crc;
  options.capture_file = provider.capture_file;
  options.capture_bytes_max = provider.capture_bytes_max;
  options.setup_timeout_initiator = provider.setup_timeout_client;
  options.setup_timeout_responder = provider.setup_timeout_server;
  const std::uint32_t calls = std::bit_ceil(std::max(calls_max, connection.credits));
  options.queue_depth = std::max(options.queue_depth, 4 * calls);
  options.exposures = std::max(options.exposures, 4 * calls);
  options.regions = std::max(options.regions, 4 * calls);
  auto made = rdma::siwarp::make_provider(options);
  if (!made) return Unexpected<Error>(to_error(made.error(), "opening the provider", "siwarp"));
  return std::move(*made);
}

}  // namespace rpcrdma::rpc
