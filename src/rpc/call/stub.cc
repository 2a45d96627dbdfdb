#include "rpcrdma/generated/stub.h"

#include <algorithm>
#include <limits>
#include <string>

namespace rpcrdma::stub {

Expected<Call, Error> prepare(Client& client, const Procedure& procedure,
                              const SizeCounter& arguments, std::uint64_t results_max,
                              const Places& places, const CallOptions& options) {
  const auto too_large = [&client](std::string cause) {
    return Unexpected<Error>(Error{Errc::kTooLarge, "preparing the call",
                                   std::string(client.connection().peer_address),
                                   std::move(cause)});
  };
  if (arguments.in_place() > std::numeric_limits<std::uint32_t>::max()) {
    return too_large("its arguments take more than 4 GiB");
  }
  if (!places.ok()) return too_large("there are more places for results than a call may have");
  auto call = client.prepare(procedure, static_cast<std::uint32_t>(arguments.in_place()));
  if (!call) return call;
  for (const MutableBytes place : places.view()) call->place_result(place);
  call->expect_results(
      options.results_size_max != 0
          ? options.results_size_max
          : static_cast<std::uint32_t>(std::min<std::uint64_t>(results_max, kResultsMaxByDefault)));
  if (options.timeout != std::chrono::nanoseconds{}) call->time_out_after(options.timeout);
  return call;
}

}  // namespace rpcrdma::stub
