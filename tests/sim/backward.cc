// Calls from servers to clients over the connections that the clients made (RFC 8167).
#include "rpcrdma/backward.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rpcrdma/version_two.h"
#include "sim/simulation.h"

namespace rpcrdma::simulation {

// A client that calls and is ready for calls has said so; what it said is no matter of ours.
void Simulation::maybe_make_caller(ServerActor& actor, CallContext& context, std::uint64_t call) {
  const auto found = std::ranges::find_if(
      records_, [call](const auto& record) { return record->script().id == call; });
  if (found == records_.end() || actor.options.backward_calls == 0) return;
  if (actor.options.shards > 1)
    return;  // programs call from one thread, and clients of shards have another
  const std::size_t client = (*found)->client();
  if (clients_[client]->options.backward_calls == 0) return;
  const bool is_there = std::ranges::any_of(actor.callers, [client](const auto& caller) {
    return caller->client == client && caller->handle;
  });
  if (is_there) return;
  auto made = Backward::client_of(context);
  // The one before it may still wait for its last Sends.
  if (!made) return;
  actor.callers.push_back(std::make_unique<Caller>());
  actor.callers.back()->client = client;
  actor.callers.back()->options = &actor.options;
  actor.callers.back()->handle.emplace(std::move(*made));
  trace_.note(world_, "a server can call client {}", client);
}

void Simulation::act_backward() {
  if (backward_random_.one_in(3)) answer_held_backward();
  ServerActor& actor = *servers_[backward_random_.below(servers_.size())];
  if (actor.callers.empty()) return;
  Caller& caller = *actor.callers[backward_random_.below(actor.callers.size())];
  if (!caller.handle) return;
  if (!caller.handle->connected() || backward_random_.one_in(40)) {
    trace_.note(world_, "a server has enough of client {}", caller.client);
    caller.dropped = true;
    caller.handle.reset();
    return;
  }
  for (std::uint64_t left = 1 + backward_random_.below(3); left > 0; --left) start_backward(caller);
}

void Simulation::start_backward(Caller& caller) {
  CallScript script = draw_backward_script(backward_random_, next_id_++, plan_.hold_one_in);
  const auto said = caller.handle->version_two().characteristics();
  const bool has_chunks =
      said && said->peer.backward == BackwardSupport::kGeneral && change_random_.one_in(3);
  if (has_chunks) enlarge(script, change_random_);
  const Procedure procedure = script.procedure;
  const std::uint32_t arguments_size_max = script.arguments_size_max;
  auto call = caller.handle->prepare(procedure, arguments_size_max);
  if (!call) return;  // too many, or no connection
  backward_records_.push_back(std::make_unique<BackwardRecord>(
      BackwardRecord{CallRecord(std::move(script), caller.client), &caller, false, has_chunks}));
  BackwardRecord& record = *backward_records_.back();
  record.record.encode(*call);
  record.record.started(world_.now(), std::chrono::seconds(60), 0);
  trace_.note(world_, "backward call {} to client {}", record.record.script().id, caller.client);
  totals_.add(Count::kBackward);
  auto* self = this;
  auto* which = &record;
  const auto started =
      caller.handle->start(std::move(*call), [self, which](Expected<Reply, Error> reply) {
        self->backward_ended(*which, std::move(reply));
      });
  if (started) return;
  record.record.ended(verdict_);
  record.record.retire(verdict_);
  judge_backward(record, started.error());
}

void Simulation::backward_ended(BackwardRecord& record, Expected<Reply, Error> reply) {
  const unsigned result = reply ? 1000U : static_cast<unsigned>(reply.error().code);
  trace_.note(world_, "backward call {} ends: {}", record.record.script().id, result);
  behaviour_.call_ended(true, record.record.script().id, result);
  record.record.ended(verdict_);
  if (reply) {
    totals_.add(Count::kBackwardOk);
    if (const auto wrong = judge_success(record.record.script())) {
      verdict_.broken(
          6, fmt::format("backward call {} must fail: {}", record.record.script().id, *wrong));
    }
    record.record.check_results(*reply, foreign_, verdict_);
  } else {
    trace_.remark(reply.error().message());
    record.gave_up = reply.error().code == Errc::kTimedOut || reply.error().code == Errc::kCanceled;
    // Its handles are revoked, which the client may find out by an RDMA Read or Write.
    if (record.gave_up && record.has_chunks) clients_[record.record.client()]->gave_up = true;
    judge_backward(record, reply.error());
  }
  record.record.retire(verdict_);
  Caller& caller = *record.caller;
  if (plan_.callbacks_start_calls && !calm_ && !caller.dropped && caller.handle &&
      caller.handle->connected() && backward_random_.one_in(3)) {
    start_backward(caller);
  }
}

void Simulation::judge_backward(const BackwardRecord& record, const Error& error) {
  const CallScript& script = record.record.script();
  const ClientActor& client = *clients_[record.record.client()];
  const bool lacks_memory = plan_.attach_may_fail() || plan_.expose_may_fail() ||
                            is_tiny(client.options) || is_tiny(*record.caller->options);
  const Errc code = error.code;
  // A call that gave up keeps its slot until the client has answered it.
  const bool slots_are_kept = std::ranges::any_of(backward_records_, [&](const auto& other) {
    return other->gave_up && other->record.client() == record.record.client();
  });
  // It had limited its replies to smaller Receives when it asked for them (ADR 25).
  const bool has_asked = code == Errc::kChunk && client.has_asked;
  const bool may =
      has_asked || (code == Errc::kTooManyCalls && slots_are_kept) ||
      (code == Errc::kTimedOut && world_.now() >= record.record.deadline()) ||
      (code == Errc::kConnectionLost &&
       (!plan_.connections_last() || client.gave_up || client.closed ||
        has_lost_connection(client) || client.other_server)) ||
      (code == Errc::kCanceled && record.caller->dropped) ||
      (code == Errc::kServerFault && (script.answer == Answer::kSystemErr || lacks_memory)) ||
      ((code == Errc::kChunk || code == Errc::kNoResources) && lacks_memory);
  if (may) return;
  verdict_.broken(
      6, fmt::format("backward call {} must not fail like this: {}", script.id, error.message()));
}

void Simulation::answer_held_backward() {
  if (clients_.empty()) return;
  ClientActor& actor = *clients_[backward_random_.below(clients_.size())];
  if (!actor.service || actor.service->held() == 0) return;
  trace_.note(world_, "one of {} held backward calls is answered", actor.service->held());
  actor.service->answer(backward_random_.below(actor.service->held()));
}

// Records still name them, so they stay.
void Simulation::drop_callers(ServerActor& actor) {
  for (const auto& caller : actor.callers) {
    caller->dropped = true;
    caller->handle.reset();
  }
}

bool Simulation::backward_in_flight() const {
  return std::ranges::any_of(backward_records_,
                             [](const auto& each) { return each->record.in_flight(); });
}

// The handles of such a call are being revoked, perhaps while its client uses them.
bool Simulation::backward_gives_up(std::size_t client) const {
  return std::ranges::any_of(backward_records_, [&](const auto& each) {
    const CallRecord& call = each->record;
    return each->has_chunks && call.client() == client && call.in_flight() &&
           (call.deadline() <= world_.now() || each->caller->dropped);
  });
}

}  // namespace rpcrdma::simulation
