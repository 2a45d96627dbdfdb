#include "sim/simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace rpcrdma::simulation {
namespace {

Place place{};

// The same for all seeds; read only.
const ForeignMemory& foreign_memory() {
  static const ForeignMemory memory;
  return memory;
}

std::uint64_t world_seed(std::uint64_t seed) {
  return SeededRandom(seed ^ 0x5eed5eed5eedU).next();
}

}  // namespace

const Place& current_place() noexcept {
  return place;
}

Outcome simulate(std::uint64_t seed, const Settings& settings) {
  Simulation simulation(seed, settings);
  return simulation.run();
}

Simulation::Simulation(std::uint64_t seed, const Settings& settings)
    : settings_(settings),
      random_(seed),
      backward_random_(seed ^ 0xbac4a2dbac4a2dU),
      profile_random_(seed ^ 0x5666566656665666U),
      version_random_(seed ^ 0x2222222222222222U),
      change_random_(seed ^ 0x3333333333333333U),
      security_random_(seed ^ 0x6666666666666666U),
      reconnect_random_(seed ^ 0x7777777777777777U),
      hostile_random_(seed ^ 0x8888888888888888U),
      list_random_(seed ^ 0x9999999999999999U),
      clock_random_(seed ^ 0xaaaaaaaaaaaaaaaaU),
      inline_random_(seed ^ 0xbbbbbbbbbbbbbbbbU),
      stream_random_(seed ^ 0xccccccccccccccccU),
      hostile_stream_random_(seed ^ 0xddddddddddddddddU),
      shard_random_(seed ^ 0xeeeeeeeeeeeeeeeeU),
      plan_([&] {
        Plan plan = draw_plan(random_, profile_random_, version_random_, settings.faults);
        plan.security = draw_security(security_random_, settings.faults);
        plan.reconnects = reconnect_random_.one_in(4);
        draw_hostility(hostile_random_, plan);
        draw_streams(stream_random_, plan);
        plan.calls *= settings.calls_factor;
        plan.bytes_max *= settings.calls_factor;
        return plan;
      }()),
      trace_(settings.verbose),
      world_(world_seed(seed), plan_.world),
      security_(plan_.security, world_, totals_, security_random_),
      foreign_(foreign_memory()),
      calls_left_(plan_.calls),
      hostile_acts_left_(plan_.hostile_peers > 0 ? plan_.hostile_acts : 0),
      hostile_stream_acts_left_(plan_.hostile_streams > 0 ? plan_.hostile_acts : 0),
      clients_left_(plan_.clients + plan_.clients_more),
      bytes_left_(plan_.bytes_max) {
  place = {seed, 0, 0};
  if (plan_.has_streams) streams_.emplace(world_, [this](int epoll) { wait_for_stream(epoll); });
  if (streams_ && plan_.are_streams_narrow) streams_->make_narrow();
  world_.observe([this](const rdma::sim::Departure& departure) { behaviour_.departed(departure); });
}

Simulation::~Simulation() {
  // After a failure the actors are left as they are; they still go before the world does.
  for (const auto& client : clients_) {
    client->going = client->closed = true;
    for (auto& kept : client->kept) kept.reset();
    client->client.reset();
    client->security.reset();
    if (client->service) client->service->forget();
  }
  for (const auto& server : servers_) {
    if (server->service) server->service->forget();
    drop_callers(*server);
    security_.run_all_steps();
    reset(*server);
  }
}

Outcome Simulation::run() {
  storm();
  if (!over()) calm_down();
  if (!over()) serve_again();
  if (!over()) finish();
  if (verdict_.ok() && steps_ >= settings_.steps_max) {
    verdict_.broken(0, fmt::format("it did not end within {} steps", settings_.steps_max));
  }
  totals_.add(Count::kSeeds);
  totals_.add(Count::kSteps, steps_);
  totals_.add(Count::kEvents, world_.events());
  // How much a socket takes at a time is the kernel's to say, so that a record would hold for one.
  const Behaviour seen = streams_ ? Behaviour{} : behaviour_.result();
  return {verdict_.first(), steps_, world_.now(), trace_.digest(), seen, totals_};
}

void Simulation::count_step() {
  ++steps_;
  place.step = steps_;
  place.time_ns = world_.now().time_since_epoch().count();
}

// --- Moving ------------------------------------------------------------------------------------

// Lets one thing happen: an actor that would be woken makes progress, the world goes on, or a step
// of authentication ends.
Simulation::Moved Simulation::move() {
  if (!security_.has_steps()) return move_without_steps();
  // Others pass most of them by, and time does seldom.
  if (!security_random_.one_in(4)) {
    if (const Moved moved = move_without_steps(); moved == Moved::kYes) return moved;
  }
  count_step();
  // The Call that opens a connection has little time left then, and nothing but its reply keeps the
  // connection.
  const auto most_of_the_setup = ProviderOptions().setup_timeout_client - std::chrono::seconds(1);
  if (security_.run_step() >= most_of_the_setup) {
    for (const auto& client : clients_) client->gave_up = true;
  }
  check();
  return Moved::kYes;
}

template <class Function>
void Simulation::for_each_node(Function function) {
  for (const auto& server : servers_) {
    if (!server->server) continue;
    function(*server->node);
    for (Node* const shard : server->node->shards()) {
      if (shard->thread().is_there()) function(*shard);
    }
  }
  for (const auto& client : clients_) {
    if (client->client) function(*client->node);
  }
}

Simulation::Moved Simulation::move_without_steps() {
  ready_.clear();
  for_each_node([this](Node& node) {
    if (!node.busy && node.ready()) ready_.push_back(&node);
  });
  const auto next = world_.next_event();
  const bool lags = !calm_ && plan_.lag_one_in != 0 && next && random_.one_in(plan_.lag_one_in);
  if (!ready_.empty() && !lags) {
    count_step();
    progress(*ready_[random_.below(ready_.size())]);
    check();
    return Moved::kYes;
  }
  bool has_timer = false, is_before_next = false;
  for_each_node([&](const Node& node) {
    const auto timer = node.timer();
    if (!timer || *timer <= world_.now()) return;
    has_timer = true;
    is_before_next = is_before_next || (next && *timer < *next);
  });
  if (is_before_next) return pass_to_timer() ? Moved::kYes : Moved::kNothingIsLeft;
  if (!next) return has_timer ? Moved::kOnlyTimersAreLeft : Moved::kNothingIsLeft;
  count_step();
  world_.step();
  check();
  return Moved::kYes;
}

// Lets the time pass to the next timer (or event).
bool Simulation::pass_to_timer() {
  count_step();
  std::size_t left = servers_.size() + clients_.size();
  for_each_node([&](Node& node) {
    node.arm_timers();
    ++left;
  });
  const Instant before = world_.now();
  // Timers of actors that are gone or late are due already; each is disarmed by one try.
  for (; world_.now() == before; --left) {
    world_.pass_time();
    if (left == 0) return false;
  }
  return true;
}

void Simulation::progress(Node& node) {
  node.busy = true;
  if (node.is_further_shard()) {
    totals_.add(Count::kShardTurns);
    node.thread().give_turn();
  }
  for (const auto& server : servers_) {
    if (!server->server) continue;
    if (server->node.get() == &node) {
      server->server->progress();
      // The first time this starts their threads.
      for (Node* const shard : node.shards()) shard->thread().meet();
    }
    note_drained(*server);
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (clients_[i]->node.get() != &node) continue;
    const StreamWorld::Acting as(streams_, i);
    clients_[i]->client->progress();
  }
  node.busy = false;
}

// An actor waits inside of the library: call() and the destructor of a client do. They end also
// when something is broken already, so that it can be reported.
void Simulation::wait_for(Node& node) {
  // A server that goes looks at no news of its peers any more, and waits for the steps of calls
  // that its shards have taken in their last turn.
  if (server_goes_) security_.run_all_steps();
  while (!node.ready()) {
    const Moved moved = move();
    if (moved == Moved::kYes && steps_ < 2 * settings_.steps_max) {
      if (random_.one_in(20)) answer_held();
      continue;
    }
    if (moved == Moved::kOnlyTimersAreLeft && pass_to_timer()) continue;
    std::fputs("rpcrdma-sim: somebody waits inside of the library for ever (I7)\n", stderr);
    std::abort();
  }
}

// Lets others act until the actor whose descriptor it is has something to do.
void Simulation::wait_for_stream(int epoll) {
  for (const auto& client : clients_) {
    if (client->node->epoll() == epoll) return wait_for(*client->node);
  }
  std::fputs("rpcrdma-sim: somebody waits for sockets that is no client\n", stderr);
  std::abort();
}

bool Simulation::settle() {
  while (!over() && move() == Moved::kYes) {
  }
  return !over();
}

// --- Checking ----------------------------------------------------------------------------------

void Simulation::check() {
  if (!world_.violations().empty()) verdict_.broken(1, world_.violations().front());
  if (!backward_records_.empty()) {
    backward_records_[steps_ % backward_records_.size()]->record.check_memory(verdict_);
  }
  if (!records_.empty()) records_[steps_ % records_.size()]->check_memory(verdict_);
  for (const auto& server : servers_) {
    if (server->server) check_server(*server);
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    ClientActor& actor = *clients_[i];
    note_server_of(actor);
    if (!actor.client || actor.node->busy) continue;
    note_stream(actor);
    const std::size_t expected = actor.slots - actor.kept.size();
    if (actor.client->calls_in_flight() != expected) {
      verdict_.broken(5, fmt::format("client {} has {} calls in flight, its program knows of {}", i,
                                     actor.client->calls_in_flight(), expected));
    }
    if (plan_.connections_last() && !calm_ && !actor.is_misled && !actor.gave_up &&
        has_lost_connection(actor) &&
        !(actor.by_stream && stream_may_end(actor.options, servers_[actor.server]->options))) {
      const std::string_view cause = actor.by_stream ? "a stream" : actor.node->link_cause();
      if (cause != "connect") {
        verdict_.broken(7,
                        fmt::format("client {} lost its connection for no reason: {}", i, cause));
      }
    }
  }
}

// Counts the connections of a client of streams, whose node does not see them.
void Simulation::note_stream(ClientActor& actor) {
  if (!actor.by_stream || actor.client->connected() == actor.was_connected) return;
  actor.was_connected = !actor.was_connected;
  if (!actor.was_connected) return totals_.add(Count::kStreamsLost);
  ++actor.streams_made;
  totals_.add(Count::kStreams);
}

bool Simulation::has_lost_connection(const ClientActor& actor) {
  if (!actor.by_stream) return actor.node->link_ended();
  return actor.streams_made > 0 && !actor.client->connected();
}

std::uint32_t Simulation::connections_made(const ClientActor& actor) {
  return actor.by_stream ? actor.streams_made : actor.node->connections_made();
}

// A client with a list asks the server of its last connection.
void Simulation::note_server_of(ClientActor& actor) {
  if (!actor.other_server) return;
  const ServerActor& other = *servers_[*actor.other_server];
  const bool is_there = actor.by_stream
                            ? actor.client && actor.client->connected() &&
                                  actor.client->connection().peer_address == other.stream_path
                            : actor.node->connected_to() == other.address;
  if (!is_there) return;
  std::swap(actor.server, *actor.other_server);
  totals_.add(Count::kMoves);
}

// Asks some servers with several shards. That wakes these, and others must not need it.
void Simulation::check_shards(const ServerActor& actor) {
  constexpr std::uint64_t kStepsBetween = 16;
  if (!actor.is_asked || steps_ % kStepsBetween != 0) return;
  for (Node* const shard : actor.node->shards()) shard->set_asked(true);
  const std::size_t in_use = actor.server->memory_in_use();
  for (Node* const shard : actor.node->shards()) shard->set_asked(false);
  check_lent(actor, in_use);
}

// Each shard may lend as much as the largest call takes, which may be all; and calls that the
// program holds keep it when the server has drained.
void Simulation::check_lent(const ServerActor& actor, std::size_t in_use) {
  const std::uint32_t shards = std::max(actor.options.shards, 1U);
  std::size_t memory_max = actor.options.memory_max * shards;
  if (settings_.sabotage == Sabotage::kMemory) memory_max /= 100;
  if (in_use <= memory_max) return;
  verdict_.broken(9, fmt::format("a server of {} shards has {} bytes lent, and may lend {}", shards,
                                 in_use, memory_max));
}

void Simulation::check_server(const ServerActor& actor) {
  if (actor.options.shards > 1 && !actor.server->drained()) return check_shards(actor);
  if (actor.server->connections() == 0 && actor.server->memory_in_use() != 0) {
    verdict_.broken(8, fmt::format("a server without connections has {} bytes lent",
                                   actor.server->memory_in_use()));
  }
  check_lent(actor, actor.server->memory_in_use());
}

// Returns whether this client has no connection, and tries to make one.
bool Simulation::may_reconnect(const ClientActor& actor) const {
  return actor.options.reconnect.enabled && actor.client && !actor.closed &&
         !actor.client->connected();
}

bool Simulation::anything_held() const {
  for (const auto& server : servers_) {
    if (server->service && server->service->held() > 0) return true;
  }
  for (const auto& client : clients_) {
    if (!client->kept.empty() || (client->service && client->service->held() > 0)) return true;
  }
  return false;
}

// Returns whether calls of this client may have to wait for what a program does: a held call keeps
// its credit, also when its caller has given up on it; a reply that is kept, its Receive; and all
// the calls of a server with little memory wait for each other. A client that keeps replies may
// have no memory for the next ones, which the server keeps then. Calls of a client that has lost
// its connection wait for the next one.
bool Simulation::may_have_to_wait(std::size_t client) const {
  const ClientActor& actor = *clients_[client];
  const ServerActor& server = *servers_[actor.server];
  if (!actor.kept.empty() || may_reconnect(actor) || actor.is_misled) return true;
  const bool others_keep_replies = std::ranges::any_of(clients_, [&](const auto& other) {
    return other->by_stream && other->server == actor.server && !other->kept.empty();
  });
  const bool others_hold =
      server.service->held() > 0 || hostile_peer_is_there() || others_keep_replies;
  if (others_hold && is_tiny(server.options)) return true;
  return std::ranges::any_of(records_, [&](const auto& record) {
    return record->client() == client && server.service->holds(record->script().id);
  });
}

bool Simulation::hostile_peer_is_there() const {
  return std::ranges::any_of(hostile_peers_,
                             [](const auto& each) { return each->link().is_connected(); }) ||
         std::ranges::any_of(hostile_streams_, &HostileStream::is_there);
}

// Called when nothing is going to happen but time-outs. Unless somebody was left waiting on
// purpose, nobody waits then (I7: that a time-out would end a call in the end does not help it).
void Simulation::check_nobody_is_forgotten() {
  for (const auto& record : records_) {
    if (!record->in_flight() || clients_[record->client()]->going) continue;
    if (may_have_to_wait(record->client())) continue;
    verdict_.broken(7, fmt::format("nothing is going to happen, and call {} is under way",
                                   record->script().id));
  }
  for (const auto& each : backward_records_) {
    if (!each->record.in_flight()) continue;
    const ClientActor& client = *clients_[each->record.client()];
    if (client.service->held() > 0 || client.going) continue;
    // Its chunks need memory of the client's, which calls that wait for a program have.
    if (is_tiny(client.options) && may_have_to_wait(each->record.client())) continue;
    verdict_.broken(7, fmt::format("nothing is going to happen, and backward call {} is under way",
                                   each->record.script().id));
  }
}

}  // namespace rpcrdma::simulation
