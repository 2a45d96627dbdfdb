// One seed: a world, servers, clients and what programs do with them, with the invariants of
// docs/invariants.md checked after each step.
//
// One step is the least that can happen: one event of the world, one progress() of one actor that
// would be woken, or one act of a program. Which comes next is drawn.
#ifndef RPCRDMA_TESTS_SIM_SIMULATION_H_
#define RPCRDMA_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "sim/behaviour.h"
#include "sim/call_record.h"
#include "sim/hostile_peer.h"
#include "sim/hostile_server.h"
#include "sim/hostile_stream.h"
#include "sim/node.h"
#include "sim/plan.h"
#include "sim/security.h"
#include "sim/service.h"
#include "sim/stream_world.h"
#include "sim/totals.h"
#include "sim/trace.h"
#include "sim/verdict.h"

namespace rpcrdma::simulation {

// Deliberate mistakes, to see that the checks see them.
enum class Sabotage : std::uint8_t {
  kNone,
  kWrongResult,  // a service sends a wrong byte: I6
  kGuard,        // a byte beside lent memory is written: I4
  kLateWrite,    // memory of an ended call is written: I3
  kTwoEnds,      // a call ends twice: I5
  kLostWake,     // wake() does nothing: calls never end, I7
  kMemory,       // servers are believed to have a hundredth of their memory: I9
  kForgetful,    // servers remember no replies: I10
  kUnfair,       // calls may take no time at all beside hostile peers: I11
};

// Processes by which hostile peers connect to Unix sockets; below are those of clients.
inline constexpr std::size_t kHostileActor = 1000;

struct Settings {
  bool faults = true;
  bool verbose = false;
  std::uint64_t steps_max = 2'000'000;
  std::uint32_t calls_factor = 1;  // so many times the calls that the seed draws
  Sabotage sabotage = Sabotage::kNone;
};

struct Outcome {
  std::optional<Broken> broken;
  std::uint64_t step = 0;  // where it broke, or the last one
  Instant time{};
  std::uint64_t digest = 0;  // of all that happened, work ids and times included
  Behaviour behaviour;       // of what peers and programs can see
  Totals totals;
};

Outcome simulate(std::uint64_t seed, const Settings& settings);

// Where the simulation that runs now has come to; for a last word when the program dies.
struct Place {
  std::uint64_t seed, step;
  std::int64_t time_ns;
};
const Place& current_place() noexcept;

class Simulation final : private Driver {
 public:
  Simulation(std::uint64_t seed, const Settings& settings);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation();

  Outcome run();

 private:
  struct KeptReply {
    KeptReply(CallRecord* of, Reply&& taken) : record(of), reply(std::move(taken)) {}
    CallRecord* record;
    Reply reply;
  };
  // A server's client of a client, from when that has called until somebody drops it.
  struct Caller {
    std::size_t client = 0;
    const ServerOptions* options = nullptr;  // of its server, which its client may have left
    std::optional<Client> handle;
    bool dropped = false;  // its calls are cancelled
  };
  struct BackwardRecord {
    CallRecord record;
    Caller* caller;
    bool gave_up;
    bool has_chunks;  // or may have
  };
  // The threads of shards end when all have drained, and nothing is given back any more: a stream
  // that waits for its peer then, and a call that the service answers later, go with the server.
  struct LeftBehind {
    std::size_t connections_max;
    bool may_hold_memory;
  };
  struct ServerActor {
    ServerOptions options;
    std::unique_ptr<SecureServer> security;  // null: none
    std::vector<std::unique_ptr<Caller>> callers;
    std::unique_ptr<Node> node;
    std::unique_ptr<ScriptedService> service;
    std::unique_ptr<HostileProgram> hostile_program;
    std::optional<Server> server;
    std::string address, stream_path;
    bool stopping = false;
    bool is_asked = false;  // for figures while it runs, which wakes its shards
    Instant stopped_at{};
    std::optional<LeftBehind> left_behind;  // since all its shards have drained, and have ended
  };
  struct ClientActor {
    ClientOptions options;
    std::unique_ptr<SecureClient> security;   // null: none
    std::size_t server = 0;                   // of the last connection
    std::optional<std::size_t> other_server;  // the other one of its list
    bool is_misled = false;  // its server is the hostile one: its calls end in any way
    std::unique_ptr<Node> node;
    std::unique_ptr<ScriptedService> service;  // of backward Calls
    std::optional<Client> client;
    std::vector<std::unique_ptr<KeptReply>> kept;
    std::uint32_t slots = 0;  // calls that are started and kept replies
    bool closed = false;      // close() was called or it is being destroyed
    bool going = false;       // it is being destroyed
    bool gave_up = false;     // one of its calls timed out
    bool has_asked = false;   // the server for other Receives
    int changes = 0;          // requests to the server that have not ended
    // It calls over a Unix socket, as TCP's code does: it has had so many connections.
    bool by_stream = false, was_connected = false;
    std::uint32_t streams_made = 0;
  };
  enum class Moved : std::uint8_t { kYes, kOnlyTimersAreLeft, kNothingIsLeft };

  // Stepping (simulation.cc).
  void wait_for(Node& node) override;
  Moved move();
  Moved move_without_steps();
  bool pass_to_timer();
  // Calls `function` for the node of each actor, and of each further shard, that is there.
  template <class Function>
  void for_each_node(Function function);
  void progress(Node& node);
  bool settle();  // until nothing moves; false: broken
  void check();
  void check_server(const ServerActor& actor);
  void check_shards(const ServerActor& actor);
  void check_lent(const ServerActor& actor, std::size_t in_use);
  void note_server_of(ClientActor& actor);
  void note_stream(ClientActor& actor);
  static bool has_lost_connection(const ClientActor& actor);
  static std::uint32_t connections_made(const ClientActor& actor);
  void wait_for_stream(int epoll);
  bool may_reconnect(const ClientActor& actor) const;
  bool may_have_to_wait(std::size_t client) const;
  bool hostile_peer_is_there() const;
  void check_nobody_is_forgotten();
  bool anything_held() const;
  bool over() const { return !verdict_.ok() || steps_ >= settings_.steps_max; }
  void count_step();

  // Acts as the programs do (acts.cc).
  void act();
  void act_on_lives();
  void add_server();
  void add_client();
  Expected<Client, Error> connect(ClientActor& actor);
  Expected<Client, Error> connect_by_stream(ClientActor& actor);
  // Returns by how much the clock of a new actor's host is ahead of the world's time.
  Instant::duration draw_clock();
  void make_calls();
  bool start_call(ClientActor& actor, CallScript script, bool blocking);
  bool is_wrong_to_refuse(const ClientActor& actor, const CallScript& script, Errc code) const;
  void refused(const ClientActor& actor, const CallRecord& record, const Error& error);
  void not_started(ClientActor& actor, CallRecord& record, const Error& error);
  void call_ended(CallRecord& record, Expected<Reply, Error> reply);
  void check_fairness(const CallRecord& record);
  void count_failure(Errc code);
  void judge(CallRecord& record, const Error& error);
  CallScript next_script(const ClientActor& actor);
  void release_reply(ClientActor& actor);
  void answer_held();
  void close_client(ClientActor& actor);
  void destroy_client(ClientActor& actor);
  void stop_server(ServerActor& actor);
  void destroy_server(ServerActor& actor);
  void reset(ServerActor& actor);

  // Calls from servers to clients (backward.cc).
  void maybe_make_caller(ServerActor& actor, CallContext& context, std::uint64_t call);
  void check_caller(const CallContext& context, std::uint64_t call);
  void act_backward();
  void act_on_characteristics();
  void act_hostile();
  void act_hostile_stream();
  const ServerActor* find_server(SeededRandom& random) const;
  void start_backward(Caller& caller);
  void backward_ended(BackwardRecord& record, Expected<Reply, Error> reply);
  void judge_backward(const BackwardRecord& record, const Error& error);
  void answer_held_backward();
  void drop_callers(ServerActor& actor);
  bool backward_in_flight() const;
  bool backward_gives_up(std::size_t client) const;

  // From the storm to the end (phases.cc).
  void storm();
  void calm_down();
  void serve_again();
  bool can_serve(const ClientActor& actor) const;
  void serve_again_on(std::size_t client);
  void make_server_wait(const ServerActor& server);
  bool is_waited_for_hostile();
  void end_hostile();
  void finish();
  void wait_for_drain(ServerActor& actor);
  LeftBehind what_remains(const ServerActor& actor) const;
  void note_drained(ServerActor& actor) const;
  void check_drained(const ServerActor& actor);

  const Settings settings_;
  SeededRandom random_;
  // Apart, so that seeds stay what they were.
  SeededRandom backward_random_, profile_random_, version_random_, change_random_;
  SeededRandom security_random_, reconnect_random_, hostile_random_, list_random_, clock_random_;
  SeededRandom inline_random_, stream_random_, hostile_stream_random_, shard_random_;
  const Plan plan_;
  Trace trace_;
  Verdict verdict_;
  Verdict ignored_;  // on credits between a client and the hostile server
  Totals totals_;
  BehaviourMonitor behaviour_;
  rdma::sim::World world_;
  std::optional<StreamWorld> streams_;
  SecurityWorld security_;
  const ForeignMemory& foreign_;
  std::uint64_t steps_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint32_t calls_left_, hostile_acts_left_, hostile_stream_acts_left_;
  std::size_t clients_left_;
  std::size_t bytes_left_;
  bool calm_ = false;          // no faults and no lags any more
  bool server_goes_ = false;   // its destructor runs
  bool must_succeed_ = false;  // calls that start now
  std::optional<Instant> calm_since_;
  std::vector<std::unique_ptr<CallRecord>> records_;
  std::vector<std::unique_ptr<BackwardRecord>> backward_records_;
  std::vector<std::unique_ptr<ServerActor>> servers_;
  std::vector<std::unique_ptr<ClientActor>> clients_;
  std::vector<std::unique_ptr<HostilePeer>> hostile_peers_;
  std::vector<HostileStream> hostile_streams_;
  std::optional<HostileServer> hostile_server_;
  std::vector<Node*> ready_;  // scratch of move()
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_SIMULATION_H_
