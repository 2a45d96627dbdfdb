// Counts what happened; of one seed, or of many.
#ifndef RPCRDMA_TESTS_SIM_TOTALS_H_
#define RPCRDMA_TESTS_SIM_TOTALS_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace rpcrdma::simulation {

enum class Count : std::uint8_t {
  kSeeds,
  kSteps,   // of the runner: an actor makes progress, an event of the world, an act of a program
  kEvents,  // of the simulated world
  kCalls,   // started; each ends in one of the following ways
  kOk,
  kFailed,  // any error but the next two
  kTimedOut,
  kCanceled,
  kNotStarted,  // refused by prepare() or start()
  kBlocking,    // of the calls: made by call()
  kHeld,        // answered by the service later
  kConnections,
  kLost,  // connections that ended while their client wanted them
  kClientsDestroyed,
  kServersStopped,
  kServersDestroyed,  // without stop()
  kShardTurns,        // of the threads of servers' further shards
  kRefused,           // connection requests: by fault, or nobody listens
  kBroken,            // faults: connections
  kAttachFailed,      // faults and limits: registrations
  kExposeFailed,      // faults: steering tags
  kPayloadBytes,
  kBackward,  // backward Calls started; those that ended well
  kBackwardOk,
  kPadded,  // RFC 5666: RDMA_MSGP; RDMA_DONE
  kDones,
  kChanges,  // version 2: requests for another receive size; those that were granted
  kChangesGranted,
  kContexts,  // RPCSEC_GSS: contexts begun; denials forged; calls replayed
  kForged,
  kReplays,
  kReconnections,  // of the connections: not the first of their client
  kMoves,          // of these, to another server of the client's list
  kStreams,        // connections over Unix sockets; those that were lost; that faults broke
  kStreamsLost,
  kStreamsBroken,
  kHostileConnections,  // that hostile peers ask for; those over Unix sockets; their messages
  kHostileStreams,
  kHostileMessages,
  kHostileCalls,  // of them, that a program got
  kHostileWaits,  // times that some let a server wait beside calls that must succeed
  kCount,
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Count::kCount)> kCountNames{
    "seeds",
    "steps",
    "events",
    "calls",
    "ok",
    "failed",
    "timed_out",
    "canceled",
    "not_started",
    "blocking",
    "held",
    "connections",
    "lost",
    "clients_destroyed",
    "servers_stopped",
    "servers_destroyed",
    "shard_turns",
    "refused",
    "broken",
    "attach_failed",
    "expose_failed",
    "payload_bytes",
    "backward",
    "backward_ok",
    "padded",
    "dones",
    "changes",
    "changes_granted",
    "contexts",
    "forged",
    "replays",
    "reconnections",
    "moves",
    "streams",
    "streams_lost",
    "streams_broken",
    "hostile_connections",
    "hostile_streams",
    "hostile_messages",
    "hostile_calls",
    "hostile_waits"};
static_assert(!kCountNames.back().empty(), "each count has a name");

class Totals {
 public:
  void add(Count what, std::uint64_t by = 1) noexcept {
    counts_[static_cast<std::size_t>(what)] += by;
  }
  std::uint64_t of(Count what) const noexcept { return counts_[static_cast<std::size_t>(what)]; }
  void add(const Totals& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }
  bool operator==(const Totals&) const = default;

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(Count::kCount)> counts_{};
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_TOTALS_H_
