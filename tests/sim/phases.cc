// The course of a simulation: a storm, the calm after it, service as ever, and the end.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sim/simulation.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::uint64_t kStormStepsMax = 100'000;
constexpr std::uint32_t kIdleActsMax = 200;  // nothing can be done any more

}  // namespace

void Simulation::storm() {
  for (std::size_t i = 0; i < plan_.servers; ++i) add_server();
  if (plan_.has_hostile_server) hostile_server_.emplace(world_, hostile_random_, totals_);
  for (std::size_t i = 0; i < plan_.clients; ++i) add_client();
  for (std::size_t i = 0; i < plan_.hostile_peers; ++i) {
    hostile_peers_.push_back(std::make_unique<HostilePeer>(world_, hostile_random_, totals_, i));
  }
  for (std::size_t i = 0; i < plan_.hostile_streams; ++i) {
    hostile_streams_.emplace_back(hostile_stream_random_, totals_);
  }
  std::uint32_t idle = 0;
  // More calls than the seed has drawn take more clients, too.
  std::uint32_t refills = 10 * (settings_.calls_factor - 1);
  while (!over() && calls_left_ > 0 && steps_ < kStormStepsMax && idle < kIdleActsMax) {
    if (random_.one_in(plan_.act_one_in)) act();
    act_hostile();
    act_hostile_stream();
    if (hostile_server_ && hostile_random_.one_in(3)) hostile_server_->act();
    const Moved moved = move();
    if (moved == Moved::kYes) {
      idle = 0;
      continue;
    }
    ++idle;
    check_nobody_is_forgotten();
    if (moved == Moved::kOnlyTimersAreLeft && random_.one_in(3)) pass_to_timer();
    act();
    if (idle < kIdleActsMax || refills == 0) continue;
    --refills;
    clients_left_ += plan_.clients;
    idle = 0;
  }
}

// I7: without faults every call ends within its time-out and the time to fence its memory, also
// when nobody answers it.
void Simulation::calm_down() {
  trace_.note(world_, "the world calms down with {} calls made", totals_.of(Count::kCalls));
  world_.stop_faults();
  security_.calm_down();
  calm_ = true;
  if (hostile_server_) hostile_server_->stop_listening();
  calm_since_ = world_.now();
  for (const auto& client : clients_) {
    while (!client->kept.empty()) release_reply(*client);
  }
  while (plan_.answer_held_at_calm && anything_held()) {
    answer_held();
    answer_held_backward();
  }
  while (settle()) {
    check_nobody_is_forgotten();
    bool waiting = backward_in_flight();
    for (const auto& record : records_) waiting = waiting || record->in_flight();
    if (!waiting) break;
    if (!pass_to_timer()) {
      verdict_.broken(7, "calls are in flight, and not even a time-out is going to come");
    }
  }
}

// New calls succeed: on the connections that are left, and on new ones.
void Simulation::serve_again() {
  trace_.note(world_, "{} calls have ended", totals_.of(Count::kCalls));
  // A call that the service fails may have been made again meanwhile, and is held then.
  do {
    while (anything_held()) {
      answer_held();
      answer_held_backward();
    }
    if (!settle()) return;
  } while (anything_held());
  calm_since_.reset();
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    make_server_wait(*servers_[clients_[i]->server]);
    if (clients_[i]->client && can_serve(*clients_[i])) serve_again_on(i);
    if (over()) return;
  }
  for (const auto& client : clients_) destroy_client(*client);
  if (!settle() || plan_.world.regions_max < 1024) return;
  clients_left_ = 1;
  add_client();
  if (!settle()) return;
  make_server_wait(*servers_[clients_.back()->server]);
  if (can_serve(*clients_.back())) {
    serve_again_on(clients_.size() - 1);
  } else if (const ServerActor& server = *servers_[clients_.back()->server];
             server.server && !server.stopping) {
    verdict_.broken(7, "a client cannot connect although all is calm");
  }
}

// Each hostile peer leaves something undone at this server. The calls of one with little memory
// would wait for that.
void Simulation::make_server_wait(const ServerActor& server) {
  end_hostile();
  if (hostile_peers_.empty() || !settle() || is_tiny(server.options) || !server.server) return;
  for (const auto& each : hostile_peers_) each->come(std::string(server.server->address()));
  for (int i = 0; i < 2 && settle(); ++i) {
    for (const auto& each : hostile_peers_) each->take_news();
  }
  if (!settle()) return;
  for (const auto& each : hostile_peers_) each->make_server_wait();
  for (std::size_t i = 0; i < hostile_streams_.size(); ++i) {
    const StreamWorld::Acting as(streams_, kHostileActor + i);
    hostile_streams_[i].make_server_wait(server.stream_path);
  }
  settle();
  if (is_waited_for_hostile()) totals_.add(Count::kHostileWaits);
}

void Simulation::end_hostile() {
  for (const auto& each : hostile_peers_) each->link().end();
  for (auto& each : hostile_streams_) each.end();
}

// Returns whether a server waits for a hostile peer: for an RDMA Read, the rest of a record, or
// until replies are taken.
bool Simulation::is_waited_for_hostile() {
  return std::ranges::any_of(hostile_peers_,
                             [](const auto& each) { return each->link().waiting_reads() > 0; }) ||
         std::ranges::any_of(hostile_streams_, &HostileStream::is_waited_for);
}

bool Simulation::can_serve(const ClientActor& actor) const {
  const ServerActor& server = *servers_[actor.server];
  return actor.client && actor.client->connected() && !actor.closed && !actor.is_misled &&
         server.server && !server.stopping;
}

void Simulation::serve_again_on(std::size_t client) {
  ClientActor& actor = *clients_[client];
  if (plan_.world.regions_max < 1024) return;
  must_succeed_ = true;
  // As many as there are slots: each credit and each slot has come back.
  const std::uint32_t count = std::min(actor.options.calls_max, 6U);
  for (std::uint32_t i = 0; i < count && !over(); ++i) {
    // Memory for one call at a time is all that everybody has.
    if (is_tiny(actor.options) || is_tiny(servers_[actor.server]->options)) settle();
    start_call(actor, plain_script(next_id_++), false);
  }
  settle();
  if (is_waited_for_hostile() && actor.slots > 0) {
    verdict_.broken(11, fmt::format("{} calls wait beside hostile peers", actor.slots));
  }
  check_nobody_is_forgotten();
  must_succeed_ = false;
}

// I8: at rest nothing is in use.
void Simulation::finish() {
  trace_.note(world_, "the end begins with {} clients", clients_.size());
  if (random_.one_in(2)) {
    for (const auto& client : clients_) destroy_client(*client);
  }
  if (hostile_random_.one_in(2)) end_hostile();
  for (const auto& server : servers_) {
    if (!server->server) continue;
    stop_server(*server);
    wait_for_drain(*server);
    if (over()) return;
    check_drained(*server);
    destroy_server(*server);
  }
  for (const auto& client : clients_) destroy_client(*client);
  end_hostile();
  if (hostile_server_) hostile_server_->leave();
  while (!over() && world_.step()) count_step();
  check();
  for (const auto& record : records_) {
    record->check_memory(verdict_);
    if (record->in_flight()) verdict_.broken(5, "a call has no end");
  }
  if (backward_in_flight()) verdict_.broken(5, "a backward call has no end");
  if (!foreign_.is_whole()) verdict_.broken(4, "memory of the service was written");
}

// A stream on which all is sent waits for the end of its peer, and is as good as gone. A record
// that a hostile peer has begun keeps its memory until then, and a call that the service holds for
// longer than drain_timeout keeps its connection, too.
Simulation::LeftBehind Simulation::what_remains(const ServerActor& actor) const {
  const auto hostile = std::ranges::count_if(hostile_streams_, &HostileStream::is_there);
  const auto honest = std::ranges::count_if(
      clients_, [](const auto& each) { return each->by_stream && each->client; });
  const std::size_t held = actor.service->held();
  return {static_cast<std::size_t>(hostile + honest) + held, hostile > 0 || held > 0};
}

void Simulation::note_drained(ServerActor& actor) const {
  if (actor.options.shards == 1 || !actor.stopping || actor.left_behind) return;
  if (!actor.server->drained()) return;
  actor.left_behind = what_remains(actor);
  // Connections of RDMA may still be closing: their ends would be noticed in the next turn.
  actor.left_behind->connections_max = actor.server->connections();
}

void Simulation::check_drained(const ServerActor& actor) {
  const LeftBehind left = actor.left_behind ? *actor.left_behind : what_remains(actor);
  const std::size_t memory = left.may_hold_memory ? 0 : actor.server->memory_in_use();
  if (memory == 0 && actor.server->connections() <= left.connections_max) return;
  verdict_.broken(8, fmt::format("a server that has drained has {} connections and {} bytes lent",
                                 actor.server->connections(), memory));
}

void Simulation::wait_for_drain(ServerActor& actor) {
  const Instant latest = std::max(world_.now(), actor.stopped_at + actor.options.drain_timeout) +
                         std::chrono::milliseconds(100);
  while (!over() && !actor.server->drained()) {
    const Moved moved = move();
    if (moved == Moved::kYes) continue;
    if (moved == Moved::kNothingIsLeft || !pass_to_timer() || world_.now() > latest) {
      verdict_.broken(7, "a server that was stopped does not drain");
    }
  }
}

}  // namespace rpcrdma::simulation
