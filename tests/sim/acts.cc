// The programs of a simulation act here: they call, answer, close, stop and come again.
#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "rpc/call/connecting_client.h"
#include "rpc/call/tcp_client.h"
#include "rpc/serve/server_impl.h"
#include "rpcrdma/backward.h"
#include "rpcrdma/version_two.h"
#include "sim/simulation.h"

namespace rpcrdma::simulation {
namespace {

// A stream that is lost and made again between two looks is not counted.
constexpr std::uint32_t kNotCounted = 1000;
constexpr std::string_view kNobody = "nobody:1";  // where no server ever listens

}  // namespace

void Simulation::act() {
  count_step();
  const std::uint64_t drawn = random_.below(100);
  if (drawn < 70) {
    make_calls();
  } else if (drawn < 85) {
    answer_held();
  } else if (drawn < 95) {
    if (!clients_.empty()) release_reply(*clients_[random_.below(clients_.size())]);
  } else {
    act_on_lives();
  }
  act_backward();
  act_on_characteristics();
  if (streams_ && !calm_ && plan_.stream_breaks_one_in != 0 &&
      stream_random_.one_in(plan_.stream_breaks_one_in) && streams_->break_one(stream_random_)) {
    totals_.add(Count::kStreamsBroken);
  }
  if (plan_.security.is_used) security_.act();
  check();
}

void Simulation::act_hostile() {
  if (hostile_acts_left_ == 0 || !hostile_random_.one_in(plan_.hostile_one_in)) return;
  const ServerActor* const target = find_server(hostile_random_);
  if (target == nullptr) return;
  --hostile_acts_left_;
  count_step();
  hostile_peers_[hostile_random_.below(hostile_peers_.size())]->act(
      std::string(target->server->address()));
  check();
}

void Simulation::act_hostile_stream() {
  if (hostile_stream_acts_left_ == 0) return;
  if (!hostile_stream_random_.one_in(plan_.hostile_one_in)) return;
  const ServerActor* const target = find_server(hostile_stream_random_);
  if (target == nullptr) return;
  --hostile_stream_acts_left_;
  count_step();
  const std::size_t which = hostile_stream_random_.below(hostile_streams_.size());
  const StreamWorld::Acting as(streams_, kHostileActor + which);
  hostile_streams_[which].act(target->stream_path);
  check();
}

// Returns a server that is there, or null.
const Simulation::ServerActor* Simulation::find_server(SeededRandom& random) const {
  const std::size_t first = random.below(servers_.size());
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const ServerActor& server = *servers_[(first + i) % servers_.size()];
    if (server.server && !server.stopping) return &server;
  }
  return nullptr;
}

// A client asks for other Receives, or makes its own larger, in the middle of what goes on.
void Simulation::act_on_characteristics() {
  if (clients_.empty() || !change_random_.one_in(5)) return;
  ClientActor& actor = *clients_[change_random_.below(clients_.size())];
  const std::uint32_t size = draw_receive_size(change_random_);
  const bool raises = change_random_.one_in(3);
  if (!actor.client || actor.going || actor.node->busy) return;
  if (raises) {
    if (actor.client->version_two().raise_receive_size(size))
      trace_.note(world_, "a client raises to {}", size);
    return;
  }
  auto* self = this;
  auto* which = &actor;
  const auto ended = [self, which](ChangeResult result) {
    if (--which->changes < 0) self->verdict_.broken(5, "a request for a change ends twice");
    if (result == ChangeResult::kGranted) self->totals_.add(Count::kChangesGranted);
    self->trace_.note(self->world_, "a request ends: {}", static_cast<unsigned>(result));
  };
  ++actor.changes;
  actor.has_asked = true;
  if (actor.client->version_two().request_receive_size(size, ended)) {
    totals_.add(Count::kChanges);
    trace_.note(world_, "a client asks for {}", size);
  } else {
    --actor.changes;
  }
}

// A client that has lost its connection comes again; and one that may, goes.
void Simulation::act_on_lives() {
  for (const auto& actor : clients_) {
    if (!actor->client || !has_lost_connection(*actor)) continue;
    if (actor->options.reconnect.enabled && !reconnect_random_.one_in(20)) continue;
    if (random_.one_in(2)) return destroy_client(*actor);
  }
  const auto gone = [](const auto& actor) { return !actor->client; };
  const auto living =
      clients_.size() - static_cast<std::size_t>(std::ranges::count_if(clients_, gone));
  if (living < plan_.clients && clients_left_ > 0) return add_client();
  if (!plan_.lifecycle || random_.one_in(2)) return;
  ClientActor& client = *clients_[random_.below(clients_.size())];
  ServerActor& server = *servers_[random_.below(servers_.size())];
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2:
      return close_client(client);
    case 3:
    case 4:
    case 5:
      return destroy_client(client);
    case 6:
      return server.stopping && random_.one_in(2) ? destroy_server(server) : stop_server(server);
    default:
      if (random_.one_in(3)) destroy_server(server);
  }
}

// --- Who is there ------------------------------------------------------------------------------

// A host's steady clock shows how long the host has been up: a time of one host says nothing to
// another.
Instant::duration Simulation::draw_clock() {
  if (clock_random_.one_in(2)) return {};
  constexpr std::uint64_t kThreeYears = 3 * 365 * 24;
  return std::chrono::hours(clock_random_.below(kThreeYears));
}

void Simulation::add_server() {
  auto actor = std::make_unique<ServerActor>();
  actor->options = draw_server_options(random_);
  actor->options.backward_calls = draw_backward_calls(backward_random_);
  if (plan_.rfc5666) draw_profile(profile_random_, actor->options.connection);
  actor->options.version = plan_.version;
  actor->options.connection.receive_size_max = draw_receive_size(change_random_);
  actor->options.connection.inline_arguments_max = draw_inline_arguments(inline_random_);
  actor->options.shards = draw_shards(shard_random_);
  actor->is_asked = shard_random_.one_in(3);
  if (settings_.sabotage == Sabotage::kForgetful) actor->options.reply_cache_entries = 0;
  // With a lower limit the server would end connections of honest clients for hostile ones.
  if (plan_.hostile_peers > 0) actor->options.connections_max = ServerOptions().connections_max;
  // Grants that go down and up as clients come and go.
  if (backward_random_.one_in(2)) {
    actor->options.receives_max = static_cast<std::uint32_t>(1 + backward_random_.below(40));
  }
  const Node::Shared shared{world_,
                            *this,
                            verdict_,
                            totals_,
                            trace_,
                            plan_.progress_runs_the_world,
                            settings_.sabotage == Sabotage::kLostWake,
                            plan_.rfc5666,
                            streams_ ? &*streams_ : nullptr};
  // Streams know the world's time alone.
  const Instant::duration ahead = draw_clock();
  actor->node = std::make_unique<Node>(shared, false, servers_.size(),
                                       streams_ ? Instant::duration{} : ahead);
  actor->service = std::make_unique<ScriptedService>(foreign_, verdict_, random_);
  actor->service->on_call = [this, which = actor.get()](CallContext& context, std::uint64_t call) {
    check_caller(context, call);
    maybe_make_caller(*which, context, call);
  };
  actor->service->spoils_results = settings_.sabotage == Sabotage::kWrongResult;
  actor->service->is_idempotent = !plan_.reconnects;
  auto listening = ServerImpl::listen_on(*actor->node, "server:0", actor->options);
  if (!listening || !listening->add(kProgram, kVersion, *actor->service)) {
    return verdict_.broken(7, "a server cannot listen");
  }
  if (plan_.hostile_peers > 0) {
    actor->hostile_program = std::make_unique<HostileProgram>(foreign_, hostile_random_, totals_);
    if (!listening->add(kHostileProgram, 1, *actor->hostile_program)) {
      return verdict_.broken(7, "a server takes no second program");
    }
  }
  if (plan_.security.is_used) {
    actor->security = std::make_unique<SecureServer>(security_);
    if (!listening->accept_flavor(AuthFlavor::kRpcsecGss, *actor->security)) {
      return verdict_.broken(7, "a server cannot accept RPCSEC_GSS");
    }
  }
  actor->server.emplace(std::move(*listening));
  actor->address = actor->server->address();
  if (streams_) {
    actor->stream_path = streams_->next_path();
    if (!actor->server->add_listener("unix://" + actor->stream_path)) {
      return verdict_.broken(7, "a server cannot listen for streams");
    }
  }
  trace_.note(world_, "server {} listens, {} credits", servers_.size(),
              actor->options.connection.credits);
  servers_.push_back(std::move(actor));
}

void Simulation::add_client() {
  auto actor = std::make_unique<ClientActor>();
  actor->options = draw_client_options(random_);
  actor->options.backward_calls = draw_backward_calls(backward_random_);
  if (plan_.rfc5666) draw_profile(profile_random_, actor->options.connection);
  actor->options.version = draw_version(version_random_, plan_.version);
  actor->options.connection.receive_size_max = draw_receive_size(change_random_);
  actor->options.connection.inline_arguments_max = draw_inline_arguments(inline_random_);
  if (plan_.reconnects) actor->options.reconnect = draw_reconnection(reconnect_random_);
  actor->server = random_.below(servers_.size());
  // In a long storm nearly all servers that there ever were have gone.
  if (settings_.calls_factor > 1 && !servers_[actor->server]->server && random_.one_in(2)) {
    actor->server = servers_.size() - 1;
  }
  actor->is_misled = hostile_server_ && !calm_ && hostile_random_.one_in(3);
  if (actor->options.reconnect.enabled && !actor->is_misled && !list_random_.one_in(3)) {
    const std::size_t first = list_random_.below(servers_.size());
    for (std::size_t i = 0; i < servers_.size() && !actor->other_server; ++i) {
      const std::size_t other = (first + i) % servers_.size();
      if (servers_[other]->server && other != actor->server) actor->other_server = other;
    }
    actor->options.reconnect.retries_first = list_random_.one_in(2);
  }
  if (plan_.security.is_used) {
    if (const auto service = draw_service(security_random_)) {
      actor->security = std::make_unique<SecureClient>(security_, clients_.size(), *service);
      actor->options.auth = &actor->security->auth();
    }
  }
  const Node::Shared shared{world_,
                            *this,
                            actor->is_misled ? ignored_ : verdict_,
                            totals_,
                            trace_,
                            plan_.progress_runs_the_world,
                            settings_.sabotage == Sabotage::kLostWake,
                            plan_.rfc5666,
                            streams_ ? &*streams_ : nullptr};
  const Instant::duration ahead = draw_clock();
  actor->by_stream = streams_ && !actor->is_misled && stream_random_.one_in(2);
  actor->node = std::make_unique<Node>(shared, true, clients_.size(),
                                       actor->by_stream ? Instant::duration{} : ahead);
  --clients_left_;
  auto connecting = actor->by_stream ? connect_by_stream(*actor) : connect(*actor);
  trace_.note(world_, "client {} connects to server {}, {} credits, {} inline", clients_.size(),
              actor->server, actor->options.connection.credits,
              actor->options.connection.inline_size);
  if (connecting) {
    actor->client.emplace(std::move(*connecting));
    actor->service = std::make_unique<ScriptedService>(foreign_, verdict_, backward_random_);
    if (actor->options.backward_calls > 0 && !actor->is_misled &&
        !Backward::serve(*actor->client, kProgram, kVersion, *actor->service)) {
      verdict_.broken(7, "a client cannot serve");
    }
    if (random_.one_in(4)) {
      AuthSys credential;
      const std::string name(random_.below(256), 'n');
      credential.machine_name = name;
      credential.gid_count = static_cast<std::uint32_t>(random_.below(17));
      actor->client->identity().use(credential);
    }
  } else if (actor->by_stream
                 ? servers_[actor->server]->server && !servers_[actor->server]->stopping
                 : !plan_.attach_may_fail() || connecting.error().code != Errc::kNoResources) {
    verdict_.broken(7, "a client cannot connect: " + connecting.error().message());
  }
  clients_.push_back(std::move(actor));
}

Expected<Client, Error> Simulation::connect(ClientActor& actor) {
  std::vector<std::string> addresses{actor.is_misled ? std::string(hostile_server_->address())
                                     : servers_[actor.server]->server
                                         ? servers_[actor.server]->address
                                         : std::string(kNobody)};
  if (actor.other_server) addresses.push_back(servers_[*actor.other_server]->address);
  return ConnectingClient::connect_on(*actor.node, std::move(addresses), actor.options);
}

Expected<Client, Error> Simulation::connect_by_stream(ClientActor& actor) {
  actor.options.backward_calls = 0;  // RDMA alone has them
  std::vector<std::string> addresses{servers_[actor.server]->stream_path};
  if (actor.other_server) addresses.push_back(servers_[*actor.other_server]->stream_path);
  const StreamWorld::Acting as(streams_, clients_.size());
  auto begun = TcpClient::begin_connect(std::move(addresses), nullptr, actor.options);
  if (!begun) return Unexpected<Error>(begun.error());
  Client client = TcpClient::client_of(std::move(*begun));
  (void)actor.node->wait_also_for(client.wait_fd());
  return client;
}

void Simulation::close_client(ClientActor& actor) {
  if (!actor.client || actor.closed) return;
  trace_.note(world_, "a client closes with {} calls in flight", actor.client->calls_in_flight());
  actor.closed = true;
  actor.client->close();
}

void Simulation::destroy_client(ClientActor& actor) {
  if (!actor.client || actor.node->busy) return;
  trace_.note(world_, "a client goes with {} calls in flight", actor.client->calls_in_flight());
  totals_.add(Count::kClientsDestroyed);
  actor.going = actor.closed = true;
  while (!actor.kept.empty()) release_reply(actor);
  actor.node->busy = true;
  actor.client.reset();
  actor.security.reset();
  actor.service->forget();
  actor.node->busy = false;
  if (actor.slots != 0) verdict_.broken(5, "calls have no end although their client is gone");
  if (actor.changes != 0) verdict_.broken(5, "a request for a change has no end");
}

void Simulation::stop_server(ServerActor& actor) {
  if (!actor.server || actor.stopping) return;
  trace_.note(world_, "a server stops with {} connections", actor.server->connections());
  totals_.add(Count::kServersStopped);
  actor.stopping = true;
  actor.stopped_at = world_.now();
  actor.server->stop();
}

void Simulation::destroy_server(ServerActor& actor) {
  if (!actor.server || actor.node->busy) return;
  trace_.note(world_, "a server goes with {} connections", actor.server->connections());
  totals_.add(Count::kServersDestroyed);
  actor.service->forget();
  if (backward_random_.one_in(2)) drop_callers(actor);
  for (const auto& caller : actor.callers) caller->dropped = true;
  security_.run_all_steps();
  reset(actor);
  drop_callers(actor);
  if (std::ranges::none_of(servers_, [](const auto& other) { return other->server.has_value(); }) &&
      !calm_) {
    add_server();
  }
}

// The server waits for the threads of its shards, none of which has a turn.
void Simulation::reset(ServerActor& actor) {
  for (Node* const shard : actor.node->shards()) shard->thread().let_go();
  server_goes_ = true;
  actor.server.reset();
  server_goes_ = false;
  // In the last turn of a shard the service may have got a call, and kept its context.
  if (actor.service) actor.service->forget();
}

// --- Calls -------------------------------------------------------------------------------------

// Checks that a service learns the truth about who calls.
void Simulation::check_caller(const CallContext& context, std::uint64_t call) {
  const auto found = std::ranges::find_if(
      records_, [call](const auto& record) { return record->script().id == call; });
  if (found == records_.end()) return;
  const ClientActor& client = *clients_[(*found)->client()];
  if (!client.security) return;
  if (const auto mistake = client.security->find_mistake(context.caller())) {
    verdict_.broken(6, fmt::format("call {}: {}", call, *mistake));
  }
}

void Simulation::make_calls() {
  if (clients_.empty()) return;
  ClientActor& actor = *clients_[random_.below(clients_.size())];
  const auto takes_calls = [&] {
    return actor.client && (actor.client->connected() || may_reconnect(actor));
  };
  if (actor.going || !takes_calls()) return act_on_lives();
  const bool blocking = random_.one_in(20);
  for (std::uint64_t left = 1 + random_.below(4); left > 0 && calls_left_ > 0; --left) {
    if (!takes_calls()) return;
    --calls_left_;
    if (!start_call(actor, next_script(actor), blocking) || blocking) return;
  }
}

CallScript Simulation::next_script(const ClientActor& actor) {
  const ServerActor& server = *servers_[actor.server];
  const ConnectionOptions &own = actor.options.connection, &other = server.options.connection;
  std::uint32_t inline_size = std::min(own.inline_size, other.inline_size);
  if (inline_random_.one_in(3)) {  // arguments around it are the interesting ones then
    inline_size = 100 + std::min(*own.inline_arguments_max, *other.inline_arguments_max);
  }
  CallScript script =
      draw_script(random_, next_id_++,
                  {inline_size, bytes_left_ == 0 ? 1500 : plan_.bulk_size_max, plan_.hold_one_in});
  std::size_t bytes = script.plain_argument + script.plain_result;
  for (const std::uint32_t size : script.arguments) bytes += size;
  for (const std::uint32_t size : script.results) bytes += size;
  bytes_left_ -= std::min(bytes, bytes_left_);
  return script;
}

// Returns whether prepare() or start() had no reason to say so.
bool Simulation::is_wrong_to_refuse(const ClientActor& actor, const CallScript& script,
                                    Errc code) const {
  if (actor.is_misled) return false;  // there may be no room for anything
  if (code == Errc::kConnectionLost) return actor.client->connected();
  if (code == Errc::kCanceled) return !actor.closed;
  if (code == Errc::kTooLarge) return script.can_start();
  if (code == Errc::kNoResources) return !is_tiny(actor.options) && !plan_.attach_may_fail();
  // A call that gave up keeps its slot until the peer has answered it.
  return code != Errc::kTooManyCalls ||
         actor.slots + totals_.of(Count::kTimedOut) < actor.options.calls_max;
}

void Simulation::refused(const ClientActor& actor, const CallRecord& record, const Error& error) {
  const Errc code = error.code;
  totals_.add(Count::kNotStarted);
  trace_.note(world_, "call {} is not started: {}", record.script().id,
              static_cast<unsigned>(code));
  trace_.remark(error.message());
  if (must_succeed_ || is_wrong_to_refuse(actor, record.script(), code)) {
    verdict_.broken(must_succeed_ ? 7 : 5,
                    fmt::format("call {} is not started: {}", record.script().id, error.message()));
  }
}

bool Simulation::start_call(ClientActor& actor, CallScript script, bool blocking) {
  const auto index = static_cast<std::size_t>(
      std::ranges::find_if(clients_, [&](const auto& it) { return it.get() == &actor; }) -
      clients_.begin());
  records_.push_back(std::make_unique<CallRecord>(std::move(script), index));
  CallRecord& record = *records_.back();
  const StreamWorld::Acting as(streams_, index);
  const CallScript& asked = record.script();
  auto call = actor.client->prepare(asked.procedure, asked.arguments_size_max);
  if (!call) {
    refused(actor, record, call.error());
    return false;
  }
  record.encode(*call);
  if (random_.one_in(50) && !must_succeed_) return true;  // it is never started
  trace_.note(world_, "client {} starts call {}, answer {}, {} bulk arguments, {} bulk results",
              index, asked.id, static_cast<unsigned>(asked.answer), asked.arguments.size(),
              asked.results.size());
  if (trace_.verbose()) trace_.remark(describe(asked));
  // Before: start() may run callbacks.
  record.started(world_.now(), actor.options.call_timeout, connections_made(actor));
  ++actor.slots;
  totals_.add(Count::kCalls);
  if (blocking) {
    totals_.add(Count::kBlocking);
    actor.node->busy = true;
    auto reply = actor.client->call(std::move(*call));
    actor.node->busy = false;
    if (!reply && reply.error().code == Errc::kTooManyCalls) {
      not_started(actor, record, reply.error());
      return false;
    }
    call_ended(record, std::move(reply));
    return true;
  }
  auto* self = this;
  auto* which = &record;
  const auto started = actor.client->start(
      std::move(*call),
      [self, which](Expected<Reply, Error> reply) { self->call_ended(*which, std::move(reply)); });
  if (started) return true;
  if (!record.in_flight()) verdict_.broken(5, "a call that was not started has ended");
  not_started(actor, record, started.error());
  return false;
}

void Simulation::not_started(ClientActor& actor, CallRecord& record, const Error& error) {
  record.ended(verdict_);
  record.retire(verdict_);
  --actor.slots;
  refused(actor, record, error);
}

void Simulation::count_failure(Errc code) {
  totals_.add(code == Errc::kTimedOut   ? Count::kTimedOut
              : code == Errc::kCanceled ? Count::kCanceled
                                        : Count::kFailed);
}

void Simulation::judge(CallRecord& record, const Error& error) {
  ClientActor& actor = *clients_[record.client()];
  // Also when it has not come to that call's end yet: its memory is being fenced.
  actor.gave_up = actor.gave_up || error.code == Errc::kTimedOut ||
                  std::ranges::any_of(records_,
                                      [&](const auto& other) {
                                        return other->client() == record.client() &&
                                               other->in_flight() &&
                                               other->deadline() <= world_.now();
                                      }) ||
                  backward_gives_up(record.client());
  const Circumstances circumstances{
      plan_,
      actor.options,
      servers_[actor.server]->options,
      actor.closed,
      actor.gave_up,
      world_.now() >= record.deadline(),
      actor.by_stream ? kNotCounted : connections_made(actor) - record.connections_before(),
      actor.by_stream};
  // A hostile server answers with any error, but has no part in these two.
  if (actor.is_misled && error.code != Errc::kTimedOut && error.code != Errc::kCanceled) return;
  auto wrong = judge_failure(record.script(), circumstances, error.code);
  if (!wrong && must_succeed_ && !actor.is_misled) wrong = "all is calm";
  if (!wrong) return;
  verdict_.broken(must_succeed_ ? 7 : 6, fmt::format("call {} must not fail like this: {} ({})",
                                                     record.script().id, error.message(), *wrong));
}

void Simulation::call_ended(CallRecord& record, Expected<Reply, Error> reply) {
  ClientActor& actor = *clients_[record.client()];
  const unsigned result = reply ? 1000U : static_cast<unsigned>(reply.error().code);
  trace_.note(world_, "call {} ends: {}", record.script().id, result);
  behaviour_.call_ended(false, record.script().id, result);
  record.ended(verdict_);
  if (settings_.sabotage == Sabotage::kTwoEnds) record.ended(verdict_);
  if (settings_.sabotage == Sabotage::kGuard) record.break_guard();
  bool kept = false;
  if (reply) {
    totals_.add(Count::kOk);
    if (actor.is_misled) {
      trace_.note(world_, "it has the sum {}", record.read_anything(*reply, verdict_));
    } else {
      if (const auto wrong = judge_success(record.script())) {
        verdict_.broken(6, fmt::format("call {} must fail: {}", record.script().id, *wrong));
      }
      record.check_results(*reply, foreign_, verdict_);
      check_fairness(record);
    }
    kept = !actor.going && !calm_ && random_.one_in(10);
    auto taken = std::make_unique<KeptReply>(&record, std::move(*reply));
    if (kept) actor.kept.push_back(std::move(taken));  // else it is released here
  } else {
    trace_.remark(reply.error().message());
    count_failure(reply.error().code);
    judge(record, reply.error());
  }
  if (calm_since_ &&
      world_.now() > std::max(record.deadline(), *calm_since_) + std::chrono::milliseconds(1100)) {
    verdict_.broken(7, fmt::format("call {} ended too late", record.script().id));
  }
  if (!kept) {
    --actor.slots;
    record.retire(verdict_);
    if (settings_.sabotage == Sabotage::kLateWrite) record.write_late();
  }
  if (!plan_.callbacks_start_calls || actor.going || calm_ || calls_left_ == 0) return;
  if (!random_.one_in(3) || !actor.client->connected()) return;
  --calls_left_;
  start_call(actor, next_script(actor), false);
}

// A call that waits for what a hostile peer leaves undone ends when the server gives that up, which
// takes peer_timeout: a second at least.
void Simulation::check_fairness(const CallRecord& record) {
  if (!must_succeed_ || !is_waited_for_hostile()) return;
  using std::chrono::milliseconds;
  const auto took = std::chrono::duration_cast<milliseconds>(world_.now() - record.began());
  if (took <= milliseconds(settings_.sabotage == Sabotage::kUnfair ? 0 : 500)) return;
  verdict_.broken(11, fmt::format("call {} takes {} ms beside hostile peers", record.script().id,
                                  took.count()));
}

void Simulation::release_reply(ClientActor& actor) {
  if (actor.kept.empty()) return;
  const std::size_t index = random_.below(actor.kept.size());
  auto kept = std::move(actor.kept[index]);
  actor.kept.erase(actor.kept.begin() + static_cast<std::ptrdiff_t>(index));
  trace_.note(world_, "the reply to call {} is released", kept->record->script().id);
  --actor.slots;
  CallRecord* record = kept->record;
  kept.reset();
  record->retire(verdict_);
}

void Simulation::answer_held() {
  ServerActor& actor = *servers_[random_.below(servers_.size())];
  if (!actor.service || actor.service->held() == 0) return;
  trace_.note(world_, "one of {} held calls is answered", actor.service->held());
  totals_.add(Count::kHeld);
  actor.service->answer(random_.below(actor.service->held()));
}

}  // namespace rpcrdma::simulation
