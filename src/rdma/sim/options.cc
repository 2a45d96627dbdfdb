#include "rdma/sim/options.h"

namespace rpcrdma::rdma::sim {
namespace {

std::chrono::nanoseconds up_to(SeededRandom& random, std::uint64_t bound) {
  return std::chrono::nanoseconds(1 + random.below(bound));
}

}  // namespace

Options random_options(SeededRandom& random, bool faults) {
  Options options;
  options.reads_in_flight_max = static_cast<std::uint32_t>(1 + random.below(32));
  options.remote_invalidation = random.one_in(2);
  options.latency_max = up_to(random, random.one_in(2) ? 10 : 1'000'000);
  if (random.one_in(2)) options.completion_delay_max = up_to(random, 5'000'000);
  if (random.one_in(2)) options.granularity = up_to(random, 200'000);
  options.completes_before_arrival = random.one_in(2);
  // From what is drawn already: another draw would make other worlds of all the seeds that are
  // kept.
  options.registering_is_costly = options.reads_in_flight_max % 2 == 0;
  options.shares_receives = options.reads_in_flight_max / 2 % 4 == 1;
  if (!faults) return options;
  if (random.one_in(4)) options.refuse_one_in = static_cast<std::uint32_t>(2 + random.below(8));
  if (random.one_in(4)) {
    options.attach_fails_one_in = static_cast<std::uint32_t>(20 + random.below(200));
  }
  if (random.one_in(4)) {
    options.expose_fails_one_in = static_cast<std::uint32_t>(5 + random.below(100));
  }
  if (random.one_in(2)) options.disconnect_every = 50 + random.below(2000);
  return options;
}

}  // namespace rpcrdma::rdma::sim
