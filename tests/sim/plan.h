// Decides by a seed: how nasty the world is, how everybody is set up, and who does how much.
#ifndef RPCRDMA_TESTS_SIM_PLAN_H_
#define RPCRDMA_TESTS_SIM_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/random.h"
#include "rdma/sim/options.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/options.h"

namespace rpcrdma::simulation {

// RPCSEC_GSS; nothing of it is used by seeds that do not draw it.
struct SecurityPlan {
  bool is_used;
  std::uint32_t exchanges;        // of tokens, for a context
  std::uint32_t clock_rate;       // a context's second is so much shorter; 0: contexts last
  std::uint32_t window;           // of servers
  std::uint32_t contexts_max;     // of servers
  std::uint32_t first_sequence;   // of clients
  std::uint32_t later_one_in;     // steps that end later; 0: none
  std::uint32_t denied_one_in;    // denials are forged so often; 0: never
  std::uint32_t replayed_one_in;  // calls are replayed so often; 0: never
  bool loses_tickets;             // at times clients have none

  // A call may be denied more often than it is repeated.
  bool may_deny() const noexcept {
    return is_used && (clock_rate != 0 || contexts_max < 16 || denied_one_in != 0);
  }
};

struct Plan {
  rdma::sim::Options world;
  bool faults;     // connections break, registrations fail, ...
  bool lifecycle;  // clients close and go, servers stop and come again
  std::size_t servers, clients;
  std::size_t clients_more;     // that may still come when others have gone
  std::uint32_t calls;          // to be started before the world calms down
  std::uint32_t act_one_in;     // a program acts in one step of so many
  std::uint32_t lag_one_in;     // a ready actor is left alone so often; 0: never
  std::uint32_t hold_one_in;    // calls are held by the service and answered later; 0: never
  std::uint32_t bulk_size_max;  // of most bulk items, bytes
  std::size_t bytes_max;        // of all bulk items; then they are small
  bool callbacks_start_calls;
  bool answer_held_at_calm;      // else they stay unanswered until all calls have ended
  bool progress_runs_the_world;  // else only the runner does
  bool rfc5666;                  // everybody follows the old text
  // Versions of RPC-over-RDMA that servers have; clients have one in common with them.
  ProtocolVersion version;
  SecurityPlan security;
  bool reconnects;   // clients whose connection is lost make another one, and repeat their calls
  bool has_streams;  // some clients call over Unix sockets, by TCP's code
  bool are_streams_narrow;             // they take a few KiB at a time
  std::uint32_t stream_breaks_one_in;  // of acts of programs; 0: never
  std::size_t hostile_peers;           // beside the clients
  std::size_t hostile_streams;         // the same over streams
  bool has_hostile_server;             // which some clients call
  std::uint32_t hostile_acts;          // of all of them, before the world calms down
  std::uint32_t hostile_one_in;        // one of them does something in one step of so many

  // Registrations may be refused to anybody, by fault or by limit.
  bool attach_may_fail() const noexcept {
    return world.attach_fails_one_in != 0 || world.regions_max < 1024;
  }
  bool expose_may_fail() const noexcept { return world.expose_fails_one_in != 0; }
  // Nothing but a program's own doing ends a connection. One whose first call finds no ticket ends.
  bool connections_last() const noexcept {
    return !faults && !lifecycle && lag_one_in == 0 && security.replayed_one_in == 0 &&
           !(security.is_used && security.loses_tickets);
  }
};

Plan draw_plan(SeededRandom& random, SeededRandom& profile_random, SeededRandom& version_random,
               bool faults);
SecurityPlan draw_security(SeededRandom& random, bool faults);
// Draws that of a client of a simulation that uses it; nullopt: this client does not.
std::optional<gss::Service> draw_service(SeededRandom& random);
// Draws that of a client, where servers have `server`.
ProtocolVersion draw_version(SeededRandom& random, ProtocolVersion server);
ClientOptions draw_client_options(SeededRandom& random);
ServerOptions draw_server_options(SeededRandom& random);
// Version 2: of Receives, as somebody asks for them or allows them.
std::uint32_t draw_receive_size(SeededRandom& random);
std::uint32_t draw_inline_arguments(SeededRandom& random);
// How a side follows RFC 5666.
void draw_profile(SeededRandom& random, ConnectionOptions& options);
// How many peers are hostile, and how active.
void draw_hostility(SeededRandom& random, Plan& plan);
// Draws whether some clients have streams, and how often these break.
void draw_streams(SeededRandom& random, Plan& plan);
// Draws how many shards a server has.
std::uint32_t draw_shards(SeededRandom& random);
// How a client reconnects, in a simulation where clients do.
ReconnectOptions draw_reconnection(SeededRandom& random);
// How many backward Calls a side is ready for; 0: none.
std::uint32_t draw_backward_calls(SeededRandom& random);

// Options under which calls may fail for lack of memory.
bool is_tiny(const ClientOptions& options) noexcept;
bool is_tiny(const ServerOptions& options) noexcept;

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_PLAN_H_
