// What a client does when its connection is lost: calls wait, a new connection is made, and they
// are made again over it, with the same XID.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "rpc/call/client_impl.h"
#include "rpc/counters.h"
#include "rpc/errors.h"

namespace rpcrdma {
namespace {

// After so many losses without a reply, calls are made one at a time, to find out which one it is.
constexpr std::uint32_t kLossesBeforeSuspicion = 2;

}  // namespace

// Whether a call may be given to the engine now.
bool ClientImpl::may_start() const noexcept {
  if (!connected()) return false;
  return losses_in_a_row_ < kLossesBeforeSuspicion || connection_->engine().calls_in_flight() == 0;
}

std::optional<Error> ClientImpl::start_or_wait(Slot& slot) {
  if (!options_.reconnect.enabled && keeper_ == nullptr) return start_in_engine(slot);
  slot.deadline = (in_progress_ ? now_ : provider_.now()) + slot.timeout;
  slot.lost_alone = 0;
  if (may_start()) return start_in_engine(slot);
  if (ended()) return lost_error();
  wait_for_connection(slot);
  return std::nullopt;
}

// The engine gave the call up with the connection.
void ClientImpl::wait_for_connection(Slot& slot) {
  take_memory_back(slot);
  slot.state = State::kWaiting;
  ++waiting_;
  // Its time counts from now on, however long the session of a lost connection stays.
  if (keeper_ != nullptr) keeper_->set_adrift(*this, true);
}

// --- The loss ----------------------------------------------------------------------------------

// Once for each connection, when all its calls have been given up.
void ClientImpl::after_loss() {
  loss_handled_ = true;
  last_failure_ = explain(connection_->cause(), "the connection");
  if (connection_was_up_) {
    backoff_.reset();
    ++losses_in_a_row_;
    // What this side gave up for a call that timed out is not the others' doing.
    if (connection_->engine().given_up() == engine::GivenUp::kNot) blame_single_call();
  }
  next_attempt_ = now_ + backoff_.next();
  retire_connection();
}

// A call that was alone on each of several lost connections is what the server cannot stand.
void ClientImpl::blame_single_call() {
  const auto was_under_way = [&](const Slot& slot) {
    return slot.state == State::kWaiting && slot.connection == connection_;
  };
  if (std::ranges::count_if(slots_, was_under_way) != 1) return;
  const auto slot = std::ranges::find_if(slots_, was_under_way);
  if (++slot->lost_alone < options_.reconnect.losses_max) return;
  --waiting_;
  losses_in_a_row_ = 0;
  Error error = *last_failure_;
  error.operation = "the call";
  error.cause +=
      "; it was the only call under way on each of the last connections, and is not made again";
  fail(static_cast<std::uint32_t>(slot - slots_.begin()), std::move(error));
}

// Replies that the application still looks at lie in its Receives.
void ClientImpl::retire_connection() {
  rpc::add(past_, *connection_);
  for (auto& lease : region_leases_) lease.reset();
  for (Slot& slot : slots_) {
    if (slot.connection == connection_ && !slot.holds_receive) slot.connection = nullptr;
  }
  const auto in_use = [this](const Link& each) {
    if (each.session && !each.session->idle()) return true;
    return std::ranges::any_of(slots_, [&](const Slot& slot) {
      return slot.connection == each.connection.get() && slot.holds_receive;
    });
  };
  std::erase_if(retired_, [&](const Link& each) { return !in_use(each); });
  if (in_use(link_)) retired_.push_back(std::move(link_));
  link_.connection.reset();
  link_.session.reset();
  connection_ = nullptr;
}

// --- The next connection -----------------------------------------------------------------------

void ClientImpl::try_to_connect() {
  next_attempt_.reset();
  connection_was_up_ = false;
  if (auto begun = begin_connect(std::string(peer_)); !begun) {
    last_failure_ = std::move(begun.error());
    next_attempt_ = now_ + backoff_.next();
    return;
  }
  pump_connection();  // posts its Receives
}

void ClientImpl::handle_connected() {
  ever_connected_ = connection_was_up_ = true;
  for (std::uint32_t id = 0; id < region_leases_.size(); ++id) {
    // Where this fails, calls register what they need themselves.
    if (!region_leases_[id] && !regions_.memory(id).empty()) (void)attach_region(id);
  }
}

// Makes waiting calls again, the oldest first: in the order of their XIDs.
void ClientImpl::start_waiting() {
  while (waiting_ > 0 && may_start()) {
    Slot* oldest = nullptr;
    for (Slot& slot : slots_) {
      if (slot.state != State::kWaiting) continue;
      const bool older = oldest == nullptr ||
                         static_cast<std::int32_t>(static_cast<std::uint32_t>(slot.xid) -
                                                   static_cast<std::uint32_t>(oldest->xid)) < 0;
      if (older) oldest = &slot;
    }
    RPCRDMA_ASSERT(oldest != nullptr, "a waiting call that no slot has");
    --waiting_;
    oldest->timeout = std::max(oldest->deadline - now_, std::chrono::nanoseconds{0});
    if (auto error = start_in_engine(*oldest)) {
      if (connection_->ended()) return wait_for_connection(*oldest);
      fail(static_cast<std::uint32_t>(oldest - slots_.data()), std::move(*error));
    }
  }
}

// --- Time and the end --------------------------------------------------------------------------

Error ClientImpl::timed_out_waiting() const {
  std::string cause = is_backward() ? "no connection of the client within the call's time"
                                    : "no connection to the server within the call's time";
  if (last_failure_) cause += ": " + last_failure_->cause;
  return {Errc::kTimedOut, "the call", peer_, std::move(cause)};
}

void ClientImpl::fail_waiting(bool all) {
  for (std::uint32_t i = 0; i < slots_.size() && waiting_ > 0; ++i) {
    Slot& slot = slots_[i];
    if (slot.state != State::kWaiting || (!all && slot.deadline > now_)) continue;
    --waiting_;
    fail(i, all ? lost_error() : timed_out_waiting());
  }
}

std::optional<Instant> ClientImpl::next_deadline() const {
  auto next = next_attempt_;
  if (waiting_ == 0) return next;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kWaiting) next = next ? std::min(*next, slot.deadline) : slot.deadline;
  }
  return next;
}

void ClientImpl::maintain_connection() {
  if (closing_) return fail_waiting(true);
  if (connected() && !connection_was_up_) handle_connected();
  if (connection_ != nullptr && connection_->ended() && !loss_handled_ && ever_connected_ &&
      connection_->engine().calls_in_flight() == 0) {
    after_loss();
  }
  if (next_attempt_ && *next_attempt_ <= now_) try_to_connect();
  if (waiting_ == 0) return;
  fail_waiting(false);
  start_waiting();
  pump_connection();
}

}  // namespace rpcrdma
