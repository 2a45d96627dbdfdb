// What a client does when its connection is lost: calls wait, a new connection is made, and they
// are made again over it, with the same XID.
#include <algorithm>
#include <string>
#include <utility>

#include "rpc/call/connecting_client.h"
#include "rpc/counters.h"

namespace rpcrdma {

void ConnectingClient::maintain_connection() {
  if (closing_) return fail_waiting(true);
  if (connected() && !reconnector_.was_up()) handle_connected();
  if (connection_ != nullptr && connection_->ended() && !reconnector_.is_loss_handled() &&
      ever_connected_ && connection_->engine().calls_in_flight() == 0) {
    handle_loss();
  }
  if (reconnector_.is_due(now_)) try_to_connect();
  if (calls_.waiting() == 0) return;
  fail_waiting(false);
  start_waiting();
  pump_connection();
}

void ConnectingClient::forget_losses_if_heard() noexcept {
  if (std::exchange(heard_, false)) reconnector_.forget_losses();
}

bool ConnectingClient::may_start() noexcept {
  if (!connected()) return false;
  forget_losses_if_heard();
  return !reconnector_.suspects() || connection_->engine().calls_in_flight() == 0;
}

// --- The loss ----------------------------------------------------------------------------------

// Once for each connection, when all its calls have been given up.
void ConnectingClient::handle_loss() {
  forget_losses_if_heard();
  note_unanswered_offer();
  const Error loss = errors_.explain(connection_->cause(), "the connection");
  reconnector_.handle_loss(now_, loss.cause);
  // What this side gave up for a call that timed out is not the others' doing.
  const bool given_up = connection_->engine().given_up() != engine::GivenUp::kNot;
  if (reconnector_.was_up() && !given_up) blame_single_call(loss);
  retire_connection();
}

// A call that was alone on each of several lost connections is what the server cannot stand.
void ConnectingClient::blame_single_call(const Error& loss) {
  if (std::exchange(whole_call_lost_, false)) return;  // no other one was alone
  Slot* const slot = calls_.only_one_lost_with(connection_);
  if (slot == nullptr || !reconnector_.is_too_often(++slot->lost_alone)) return;
  calls_.leave();
  reconnector_.forget_losses();
  Error error = loss;
  error.operation = "the call";
  error.cause +=
      "; it was the only call under way on each of the last connections, and is not made again";
  fail(calls_.index_of(*slot), std::move(error));
}

// Replies that the application still looks at lie in its Receives.
void ConnectingClient::retire_connection() {
  changes_.lose(connection_->engine());
  rpc::add(past_, *connection_);
  for (Slot& slot : calls_) {
    if (slot.connection == connection_ && !slot.holds_receive) slot.connection = nullptr;
  }
  const auto in_use = [this](const rpc::Link& each) {
    return (each.session && !each.session->idle()) ||
           calls_.holds_receive_of(each.connection.get());
  };
  std::erase_if(retired_, [&](const rpc::Link& each) { return !in_use(each); });
  if (in_use(link_)) retired_.push_back(std::move(link_));
  link_.connection.reset();
  link_.session.reset();
  connection_ = nullptr;
  memory_.move_to(nullptr);
}

std::string ConnectingClient::absence() const {
  std::string cause = "no connection to the server within the call's time";
  const std::string& failure = reconnector_.last_failure();
  return failure.empty() ? cause : cause + ": " + failure;
}

// --- The next connection -----------------------------------------------------------------------

void ConnectingClient::try_to_connect() {
  reconnector_.begin();
  if (auto begun = begin_connect(std::string(errors_.peer())); !begun) {
    return reconnector_.handle_failure(now_, std::move(begun.error().cause));
  }
  pump_connection();  // posts its Receives
}

void ConnectingClient::handle_connected() {
  ever_connected_ = true;
  reconnector_.set_up();
  memory_.attach_all();
}

}  // namespace rpcrdma
