#include "sim/plan.h"

#include <chrono>
#include <initializer_list>

#include "engine/types.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::uint32_t kExposuresMax = 64 * engine::kExposuresMax;  // of 64 calls
constexpr std::size_t kTiny = 4U << 20U;  // bytes; calls of a plan together take less

std::uint32_t pick(SeededRandom& random, std::initializer_list<std::uint32_t> values) {
  return values.begin()[random.below(values.size())];
}
std::uint32_t between(SeededRandom& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random.below(high - low + 1));
}

ConnectionOptions draw_connection_options(SeededRandom& random) {
  ConnectionOptions options;
  options.inline_size = random.one_in(3)
                            ? between(random, 1024, 9000)
                            : pick(random, {1024, 1024, 2048, 4096, 4096, 8192, 65536});
  options.credits = random.one_in(3) ? between(random, 1, 3) : pick(random, {4, 8, 16, 32, 64});
  options.reduce_size_min = pick(random, {1, 4, 100, 1024, 1024, 2000, 100'000});
  options.reduce = !random.one_in(5);
  return options;
}

}  // namespace

Plan draw_plan(SeededRandom& random, SeededRandom& profile_random, SeededRandom& version_random,
               bool faults) {
  Plan plan{};
  plan.faults = faults && !random.one_in(3);
  plan.world = rdma::sim::random_options(random, plan.faults);
  // Never fewer than there are Receives of both directions, and some more.
  if (random.one_in(4)) plan.world.queue_depth_max = 4 + between(random, 80, 200);
  // Room for every call to be as large as it may be, as rpc/provider_choice.cc makes it.
  plan.world.exposures_max = kExposuresMax;
  if (random.one_in(10)) plan.world.regions_max = between(random, 20, 60);
  plan.lifecycle = !random.one_in(3);
  plan.servers = between(random, 1, 2);
  plan.clients = between(random, 1, 4);
  plan.clients_more = plan.faults || plan.lifecycle ? between(random, 2, 8) : 0;
  plan.calls = pick(random, {5, 20, 40, 60, 120});
  plan.act_one_in = pick(random, {2, 5, 20, 60});
  plan.lag_one_in = random.one_in(2) ? 0 : pick(random, {2, 3, 10});
  plan.hold_one_in = random.one_in(3) ? 0 : pick(random, {2, 4, 10});
  plan.bulk_size_max = pick(random, {2000, 10'000, 10'000, 70'000, 70'000, 300'000, 1'200'000});
  plan.bytes_max = 1'500'000;
  plan.callbacks_start_calls = random.one_in(2);
  plan.answer_held_at_calm = random.one_in(2);
  plan.progress_runs_the_world = random.one_in(2);
  plan.rfc5666 = profile_random.one_in(3);
  plan.version = version_random.one_in(3) ? ProtocolVersion::kOne : ProtocolVersion::kAny;
  return plan;
}

SecurityPlan draw_security(SeededRandom& random, bool faults) {
  SecurityPlan plan{};
  plan.is_used = random.one_in(4);
  plan.exchanges = between(random, 1, 3);
  plan.clock_rate = random.one_in(2) ? 0 : pick(random, {1, 100, 1000, 10'000});
  plan.window = pick(random, {64, 128, 4096});
  plan.contexts_max = random.one_in(4) ? between(random, 1, 4) : 64;
  plan.first_sequence = random.one_in(4) ? 0x7fffffffU - between(random, 0, 40) : 1;
  plan.later_one_in = random.one_in(3) ? 0 : pick(random, {1, 2, 5});
  plan.denied_one_in = random.one_in(2) ? 0 : pick(random, {5, 20, 100});
  const bool replays = faults && random.one_in(3);
  plan.replayed_one_in = replays && plan.is_used ? pick(random, {20, 100}) : 0;
  plan.loses_tickets = random.one_in(4);
  return plan;
}

std::optional<gss::Service> draw_service(SeededRandom& random) {
  switch (random.below(7)) {
    case 0:
      return std::nullopt;
    case 1:
    case 2:
      return gss::Service::kNone;
    case 3:
    case 4:
      return gss::Service::kIntegrity;
    default:
      return gss::Service::kPrivacy;
  }
}

ProtocolVersion draw_version(SeededRandom& random, ProtocolVersion server) {
  if (server == ProtocolVersion::kAny && random.one_in(3)) return ProtocolVersion::kTwo;
  return random.one_in(2) ? ProtocolVersion::kOne : ProtocolVersion::kAny;
}

std::uint32_t draw_receive_size(SeededRandom& random) {
  return pick(random, {4096, 5000, 8192, 16'384, 32'768, 65'536});
}

std::uint32_t draw_inline_arguments(SeededRandom& random) {
  return pick(random, {0, 3000, 20'000, 65'536});
}

void draw_streams(SeededRandom& random, Plan& plan) {
  plan.has_streams = random.one_in(4);
  plan.are_streams_narrow = random.one_in(3);
  const bool breaks = plan.faults && random.one_in(2);
  plan.stream_breaks_one_in = breaks ? pick(random, {5, 20, 100}) : 0;
  plan.hostile_streams = plan.has_streams && plan.hostile_peers > 0 ? between(random, 1, 4) : 0;
}

ClientOptions draw_client_options(SeededRandom& random) {
  ClientOptions options;
  options.connection = draw_connection_options(random);
  options.calls_max = random.one_in(3) ? between(random, 1, 4) : pick(random, {8, 16, 64});
  options.call_timeout = std::chrono::milliseconds(pick(random, {20, 200, 2'000, 60'000, 60'000}));
  if (random.one_in(6)) options.memory_max = between(random, 24'000, 200'000);
  return options;
}

ServerOptions draw_server_options(SeededRandom& random) {
  ServerOptions options;
  options.connection = draw_connection_options(random);
  if (random.one_in(4)) options.bulk_size_max = between(random, 1000, 100'000);
  if (random.one_in(4)) options.long_call_size_max = between(random, 1000, 100'000);
  if (random.one_in(4)) options.memory_max = between(random, 48'000, 2'000'000);
  if (random.one_in(8)) options.connections_max = between(random, 1, 2);
  options.peer_timeout = std::chrono::milliseconds(pick(random, {1'000, 5'000, 30'000}));
  options.drain_timeout = std::chrono::milliseconds(pick(random, {1, 100, 10'000}));
  return options;
}

void draw_profile(SeededRandom& random, ConnectionOptions& options) {
  options.profile = Profile::kRfc5666;
  options.rfc5666.results_by_read = !random.one_in(3);
  options.rfc5666.padding_threshold = pick(random, {0, 100, 512, 512, 3000});
  options.rfc5666.alignment = pick(random, {0, 1, 64, 512, 1024, 4096});
  options.rfc5666.exposed_replies_max = between(random, 1, 8);
  options.rfc5666.done_timeout = std::chrono::milliseconds(pick(random, {1'000, 5'000, 30'000}));
}

void draw_hostility(SeededRandom& random, Plan& plan) {
  plan.hostile_peers = random.one_in(4) ? between(random, 1, 4) : 0;
  plan.hostile_acts = pick(random, {60, 300, 1000});
  plan.has_hostile_server = random.one_in(2) && plan.hostile_peers > 0;
  plan.hostile_one_in = pick(random, {2, 5, 20});
}

std::uint32_t draw_shards(SeededRandom& random) {
  return random.one_in(4) ? between(random, 2, 4) : 1;
}

ReconnectOptions draw_reconnection(SeededRandom& random) {
  ReconnectOptions options;
  options.enabled = !random.one_in(4);
  options.repeats_calls = !random.one_in(4);
  options.first_delay = std::chrono::milliseconds(pick(random, {1, 10, 100}));
  options.delay_max = std::chrono::milliseconds(pick(random, {100, 1'000, 5'000}));
  options.losses_max = between(random, 1, 6);
  return options;
}

std::uint32_t draw_backward_calls(SeededRandom& random) {
  return random.one_in(3) ? 0 : between(random, 1, 4);
}

bool is_tiny(const ClientOptions& options) noexcept {
  return options.memory_max < kTiny;
}
bool is_tiny(const ServerOptions& options) noexcept {
  return options.memory_max / std::max(options.shards, 1U) < kTiny;
}

}  // namespace rpcrdma::simulation
