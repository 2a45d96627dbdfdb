#include "rpc/provider_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "engine/types.h"
#include "rdma/siwarp/provider.h"
#include "rdma/verbs/loader.h"
#include "rpc/engine_options.h"
#include "rpc/errors.h"
#include "rpc/time_limit.h"

namespace rpcrdma::rpc {
namespace {

// A server's call has the most: 24 loans, and 8 results in memory of the service.
constexpr std::uint32_t kRegionsPerCall = 32;
constexpr std::size_t kInSetUp = 512;  // connections

using Made = Expected<std::unique_ptr<rdma::Provider>, Error>;

// How deep queues are: `calls_max` Calls are made and `credits` are answered at a time, or the
// other way round.
struct Load {
  std::uint32_t calls_max, credits, backward_calls;
  std::size_t connections_max = 0;  // 0: as many as the provider takes by default
  Profile profile = Profile::kRfc8166;

  std::uint32_t calls() const {
    return std::bit_ceil(std::clamp(std::max(calls_max, credits), 1U, 4096U) +
                         std::min(backward_calls, 1024U));
  }
  // Room for every call to be as large as it may be. A call that had to wait for another's memory
  // to be revoked would wait in front of the very work that revokes it.
  std::uint32_t exposures() const {
    return static_cast<std::uint32_t>(engine::kExposuresMax) * std::min(calls_max, 4096U);
  }
};

template <class Options>
void make_deep_enough(Options& options, const Load& load) {
  options.queue_depth = std::max(options.queue_depth, 4 * load.calls());
  options.exposures = std::max(options.exposures, load.exposures());
  options.regions = std::max(options.regions, kRegionsPerCall * load.calls());
  // The server counts its connections itself; some that it does not know yet are in set-up.
  options.connections_max = std::max(
      options.connections_max, std::max(load.connections_max, load.connections_max + kInSetUp));
}

template <class Options>
void take_read_depths(Options& options, const ProviderOptions& provider) {
  constexpr std::uint16_t kReadsMax = 255;  // as rdma_cm's fields are
  options.ird = std::min(provider.reads_served_max.value_or(options.ird), kReadsMax);
  options.ord = std::min(provider.reads_in_flight_max.value_or(options.ord), kReadsMax);
}

// `why`: what to tell with each error of connecting or listening; may be empty.
Made make_siwarp(const ProviderOptions& provider, const Load& load, bool share_port,
                 std::string why) {
  rdma::siwarp::Options options;
  options.remedy = std::move(why);
  options.crc = provider.crc;
  take_read_depths(options, provider);
  options.share_port = share_port;
  options.capture_file = provider.capture_file;
  options.capture_bytes_max = provider.capture_bytes_max;
  options.descriptors_from = provider.descriptors_from;
  options.setup_timeout_initiator = limited(provider.setup_timeout_client);
  options.setup_timeout_responder = limited(provider.setup_timeout_server);
  // RFC 5666 has Receives whose memory is aligned as this side has announced.
  options.shares_receives = load.profile == Profile::kRfc8166;
  make_deep_enough(options, load);
  auto made = rdma::siwarp::make_provider(options);
  if (!made) return Unexpected<Error>(to_error(made.error(), "opening the provider", "siwarp"));
  return std::move(*made);
}

rdma::verbs::Registration to_verbs(Registration registration) {
  switch (registration) {
    case Registration::kAuto:
      return rdma::verbs::Registration::kAuto;
    case Registration::kWindows:
      return rdma::verbs::Registration::kWindows;
    case Registration::kPerCall:
      return rdma::verbs::Registration::kPerCall;
    case Registration::kCache:
      return rdma::verbs::Registration::kCache;
  }
  return rdma::verbs::Registration::kAuto;
}

rdma::verbs::SharedReceives shared_receives(const ServerOptions& options) {
  if (options.shared_receives == SharedReceives::kNever || options.backward_calls > 0 ||
      options.connection.profile != Profile::kRfc8166) {
    return {};
  }
  // Buffers of the queue cannot grow: they are as large as a client may ask for.
  const engine::Options engine = engine_options(options);
  const std::uint32_t size = engine.versions.high < 2 ? 0 : engine.receive_size_max;
  return {options.receives_max, std::max(engine::receive_size(engine), size),
          options.shared_receives == SharedReceives::kAlways};
}

Made make_verbs(rdma::verbs::Plugin& plugin, const ProviderOptions& provider, const Load& load,
                const rdma::verbs::SharedReceives& shared) {
  rdma::verbs::Options options;
  options.shared_receives = shared;
  options.registration = to_verbs(provider.registration);
  take_read_depths(options, provider);
  options.setup_timeout_initiator = limited(provider.setup_timeout_client);
  options.setup_timeout_responder = limited(provider.setup_timeout_server);
  make_deep_enough(options, load);
  auto made = plugin.make_provider(options);
  if (!made) {
    return Unexpected<Error>(
        to_error(made.error(), "opening the provider", "verbs", plugin.remedy(made.error())));
  }
  return std::move(*made);
}

// Names the option that only TCP connections can fulfil; empty: there is none.
std::string_view tcp_only(const ProviderOptions& provider, bool share_port, bool on_tcp) {
  if (on_tcp) return "stepping up from a TCP connection";
  if (share_port) return "ServerOptions::share_port";
  if (!provider.capture_file.empty()) return "capturing what goes over the connection";
  return {};
}

struct Way {  // where connections come from or go to
  std::string_view address;
  bool to_listen = false, share_port = false, on_tcp = false;
  rdma::verbs::SharedReceives shared{};
};

Made make(const ProviderOptions& provider, const Load& load, const Way& way) {
  const auto refuse = [&](std::string cause) {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, "choosing a provider", provider.name, std::move(cause)});
  };
  if (provider.name != "auto" && provider.name != "siwarp" && provider.name != "verbs") {
    return refuse(
        fmt::format("there is no provider '{}'; there are: auto, siwarp, verbs", provider.name));
  }
  const std::string_view wants_tcp = tcp_only(provider, way.share_port, way.on_tcp);
  if (provider.name == "verbs") {
    if (!wants_tcp.empty()) {
      return refuse(fmt::format("{} is not for RDMA devices; use siwarp", wants_tcp));
    }
    const auto plugin = rdma::verbs::load();
    if (!plugin) return refuse(plugin.error());
    return make_verbs(**plugin, provider, load, way.shared);
  }
  std::string passed_over;
  if (provider.name == "auto" && wants_tcp.empty()) {
    if (const auto plugin = rdma::verbs::load()) {
      const auto device = (*plugin)->device_for(way.address, way.to_listen);
      if (device && device->problem.empty()) {
        return make_verbs(**plugin, provider, load, way.shared);
      }
      if (device) {
        passed_over = fmt::format("this was by TCP, since the RDMA device {} cannot be used: {}",
                                  device->name, device->problem);
      }
    }
  }
  return make_siwarp(provider, load, way.share_port, std::move(passed_over));
}

Load load_of(const ClientOptions& options) {
  return {options.calls_max, options.connection.credits, options.backward_calls, 0,
          options.connection.profile};
}
Load load_of(const ServerOptions& options) {
  // Its own calls are the backward ones, which may have chunks.
  return {options.backward_calls, options.connection.credits, options.backward_calls,
          options.connections_max, options.connection.profile};
}

}  // namespace

Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ClientOptions& options,
                                                               std::string_view address) {
  return make(options.provider, load_of(options), {.address = address});
}
Expected<std::unique_ptr<rdma::Provider>, Error> make_provider(const ServerOptions& options,
                                                               std::string_view address) {
  return make(options.provider, load_of(options),
              {.address = address,
               .to_listen = true,
               .share_port = options.share_port,
               .shared = shared_receives(options)});
}
Expected<std::unique_ptr<rdma::Provider>, Error> make_tcp_provider(const ClientOptions& options) {
  return make(options.provider, load_of(options), {.address = {}, .on_tcp = true});
}

}  // namespace rpcrdma::rpc
