// Configures how hostile a simulated world is.
#ifndef RPCRDMA_RDMA_SIM_OPTIONS_H_
#define RPCRDMA_RDMA_SIM_OPTIONS_H_

#include <chrono>
#include <cstdint>

#include "base/random.h"

namespace rpcrdma::rdma::sim {

struct Options {
  // The limits and features of each queue pair; they become its Capabilities.
  std::uint32_t queue_depth_max = 1024;
  std::uint32_t reads_in_flight_max = 16;
  std::uint32_t sge_max = 24;
  bool remote_invalidation = true;
  bool registering_is_costly = false;
  bool shares_receives = false;
  std::uint32_t shared_messages_max = 0;  // that all queue pairs hold at a time; 0: no bound
  std::uint32_t exposures_max = 1024;     // live or being made, a queue pair
  std::uint32_t regions_max = 1024;       // attached at a time, a queue pair
  std::chrono::nanoseconds setup_timeout{10'000'000'000};  // initiator; then kRefused, kTimedOut

  // Time. Each step that work takes lasts 1 ns up to this, drawn for each step.
  std::chrono::nanoseconds latency_max{10'000};
  // Completions of Sends and Writes come up to this much after they were done, so that an answer
  // may be received before its question's Send has completed.
  std::chrono::nanoseconds completion_delay_max{0};
  // Everything happens at multiples of this, so that completions come in bunches. 1: no bunches.
  std::chrono::nanoseconds granularity{1};
  // If set, a Send or Write may complete as soon as its memory was read (as over TCP), before it
  // has arrived; otherwise only after it has arrived (as with acknowledgements), and then its
  // failure is reported.
  bool completes_before_arrival = false;

  // Faults: on average one in so many; 0: never.
  std::uint32_t refuse_one_in = 0;        // connection requests are refused
  std::uint32_t attach_fails_one_in = 0;  // attach() fails with kNoResources
  std::uint32_t expose_fails_one_in = 0;  // Expose completes with kLocalError
  std::uint64_t disconnect_every = 0;     // after so many events one connection breaks; 0: never
};

// Draws which of the features are on and how strong each is. `faults` allows the last group.
Options random_options(SeededRandom& random, bool faults);

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_OPTIONS_H_
