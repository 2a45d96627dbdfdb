// RPC-over-RDMA version 1 on one connection, as a deterministic object without I/O (RFC 8166).
//
// How to drive it. There are four kinds of methods:
//
// - handle_*: inputs from below: the connection is up, a message came, work is done, time has
// passed
// - poll_*: outputs: Receives and other work to post, events (facts for the layer above), the next
//   time-out
// - verbs: commands from above, to the half that they concern: requester() starts, cancels and
//   releases Calls, responder() answers those of the peer
// - nouns: getters
//
// After any command or input, drain poll_events(), poll_receives() and then poll_work() until all
// return nothing, then ask take_disconnect() and poll_timeout(). It never blocks, reads a clock, or
// dereferences memory other than the received message and the header arena. Once as many Calls with
// chunks have been under way at a time as ever will be, it allocates nothing.
//
// Received messages are views: the caller keeps the Receive buffer as it is until
// poll_receives() names it again.
//
// Either side may make Calls when Options::backward_calls says so (RFC 8167): the server's are
// backward Calls. XIDs and credits of the two directions know nothing of each other.
//
// After handle_disconnected() nothing starts any more; completions of flushed work may still come
// in, and every call ends: those that we made with CallFailed (or ReplyReady, when the reply was
// here), those that we answer with CallDone, as soon as the layer above has given its word on them.
#ifndef RPCRDMA_ENGINE_CONNECTION_H_
#define RPCRDMA_ENGINE_CONNECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/deadline.h"
#include "engine/requester.h"
#include "engine/responder.h"
#include "engine/shared.h"
#include "engine/types.h"
#include "engine/v2/option_port.h"
#include "wire/private_data.h"

namespace rpcrdma::engine {

// Returns the private data for the connection set-up (RFC 8797).
std::array<std::byte, wire::kPrivateDataSize> private_data(const Options& options) noexcept;

// Returns the longest Send of a peer by its private data, bytes.
std::uint32_t send_size_of_peer(Bytes private_data) noexcept;

// Returns the thresholds that follow from both sides' private data; RFC 8166's defaults without the
// peer's.
LinkParameters negotiate(const Options& options, Bytes peer_private_data,
                         std::uint32_t reads_in_flight_max) noexcept;

class Connection {
 public:
  // `headers` holds header_arena_size() bytes, is registered as `region`, and outlives the object:
  // Transport headers are encoded into it and sent from there.
  Connection(Role role, const Options& options, MutableBytes headers, Lease region);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static std::size_t header_arena_size(Role role, const Options& options) noexcept;
  // Calls that we make, and that we answer, and that can be under way at a time: the slot_of() of a
  // CallId is below it.
  static std::size_t made_slot_count(Role role, const Options& options) noexcept;
  static std::size_t answered_slot_count(Role role, const Options& options) noexcept;
  // Receives: a ReceiveId is below it.
  static std::size_t receive_count(Role role, const Options& options) noexcept;

  // --- The two halves: commands from above, and getters ---
  Requester& requester() noexcept { return requester_; }
  const Requester& requester() const noexcept { return requester_; }
  Responder& responder() noexcept { return responder_; }
  const Responder& responder() const noexcept { return responder_; }
  // Profile::kRfc5666: what the Connection Configuration Protocol said (RFC 5666 §6), for the
  // messages that are planned from now on. No larger than the buffers of both sides.
  void configure(const LinkParameters& link);

  // --- Inputs from below; time never goes backwards ---
  // Sets the time at which the next calls start; cheap, and may be early.
  void handle_time(Instant now) noexcept {
    requester_.handle_time(now);
    responder_.handle_time(now);
    option_port_.handle_time(now);
  }
  // `may_invalidate`: the provider of this side can send with invalidate; for version 2.
  void handle_connected(const LinkParameters& link, bool may_invalidate = true);
  void handle_received(Instant now, ReceiveId receive, Bytes message,
                       std::optional<SteeringTag> invalidated);
  void handle_done(const Completion& done);
  void handle_timeout(Instant now);
  // `refused`: our RDMA Write that the peer refused, when that is known to be the reason.
  void handle_disconnected(const std::optional<RefusedWrite>& refused = std::nullopt);

  // --- Outputs ---
  // Receives to post. A Send that grants a credit must find its Receive posted (RFC 8166 §3.3.1),
  // so there is no other work until these are taken.
  std::span<ReceiveId> poll_receives(std::span<ReceiveId> room);
  // Receives that are not to be posted now, and whose messages are no longer read: what is kept for
  // them can be given to others. Only callers that retain Receives need to poll this.
  std::span<ReceiveId> poll_unused_receives(std::span<ReceiveId> room);
  // Work to post, in this order: as many requests as there is room for, which has Slices for each.
  // Both are read while the work is posted, and may be reused afterwards.
  std::span<work::Request> poll_work(std::span<work::Request> room, std::span<Slices> slices);
  // Returns once whether the caller is to end the connection, behind the work that was polled. It
  // does not wait for work that cannot be posted: a peer that keeps the queues full may be the
  // reason.
  bool take_disconnect() noexcept { return !ended_ && std::exchange(shared_.disconnect, false); }
  std::span<Event> poll_events(std::span<Event> room);
  // Returns the oldest event without a copy, or null; it stays until drop_event(). Commands may be
  // given meanwhile.
  const Event* event() { return shared_.events.empty() ? nullptr : &shared_.events.front(); }
  void drop_event() { shared_.events.drop(); }
  Deadline poll_timeout() const;

  // --- Getters ---
  // Returns the credits that each reply grants.
  std::uint32_t credits_granted() const noexcept { return shared_.receives.granted(); }
  std::uint32_t receives_posted() const noexcept { return shared_.receives.posted(); }
  // Returns whether version 2 was offered and the peer has not answered yet which version it
  // speaks.
  bool is_offering() const noexcept { return shared_.is_offering; }
  // Returns the version of the Calls that this side makes; 0 while version 2 is being offered.
  std::uint32_t protocol_version() const noexcept {
    return is_offering() ? 0 : link().dialect == Dialect::kV2 ? 2 : 1;
  }
  // Version 2: the characteristics that the two sides have announced, and their changes.
  OptionPort& option_port() noexcept { return option_port_; }
  const OptionPort& option_port() const noexcept { return option_port_; }
  // Returns why Requester ended the connection; kNot if something else ended it, or nothing did.
  GivenUp given_up() const noexcept { return shared_.given_up; }
  const Counters& counters() const noexcept { return shared_.counters; }
  const LinkParameters& link() const noexcept { return shared_.link; }

 private:
  bool is_for_requester(const Received& message);

  const Role role_;
  const Options options_;
  const bool is_bidirectional_;
  const bool takes_padding_;
  Shared shared_;
  Requester requester_;
  Responder responder_;
  OptionPort option_port_;
  bool ended_ = false;  // handle_disconnected() was called
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CONNECTION_H_
