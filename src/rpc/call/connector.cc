#include "rpc/call/connector.h"

#include <algorithm>
#include <utility>

#include "base/probes.h"

namespace rpcrdma::rpc {

// A client that took a connection over has no addresses.
std::string_view Connector::address() const noexcept {
  return at_ < addresses_.size() ? std::string_view(addresses_[at_]) : std::string_view();
}

Expected<void, Error> Connector::begin(std::vector<std::string> addresses,
                                       std::unique_ptr<AddressFinder> finder) {
  addresses_ = std::move(addresses);
  finder_ = std::move(finder);
  probes::client_connection_opened(&flow_, address());
  auto begun = maker_.begin(addresses_[at_]);
  if (!options_.enabled || !options_.retries_first) return begun;
  flow_.history().note_going_on();
  if (!begun) handle_failure(std::move(begun.error().cause));
  return {};
}

void Connector::handle_begun() noexcept {
  next_attempt_.reset();
  was_up_ = false;
}

void Connector::handle_failure(std::string cause) {
  last_failure_ = std::move(cause);
  next_attempt_ = flow_.now() + backoff_.next();
  // A server that was there is asked once more first. If nobody answers, it may have moved.
  if (finder_ != nullptr && !stays_) finder_->begin();
}

void Connector::maintain(bool is_up) {
  if (flow_.is_closing()) return give_up();
  if (is_up && !was_up_) {
    was_up_ = true;
    up_since_ = flow_.now();
    probes::client_connection_ready(&flow_, address());
    flow_.history().note_going_on();
    maker_.handle_up();
  }
  if (flow_.history().goes_on() && maker_.is_lost()) handle_loss();
  // The loss may have ended a call, whose callback has closed the client.
  if (flow_.is_closing()) return give_up();
  if (next_attempt_ && *next_attempt_ <= flow_.now()) try_next();
  if (flow_.calls().waiting() == 0) return;
  flow_.waiting().fail(false);
  flow_.waiting().send();
  maker_.pump_begun();
}

void Connector::give_up() {
  next_attempt_.reset();
  flow_.waiting().fail(true);
}

bool Connector::may_send(std::uint32_t calls_in_flight) noexcept {
  forget_losses_if_heard();
  return losses_in_a_row_ < kLossesBeforeSuspicion || calls_in_flight == 0;
}

void Connector::handle_loss() {
  forget_losses_if_heard();
  const Error loss = maker_.loss();
  probes::client_connection_lost(&flow_, address());
  // A server that never took the connection may be full, or may be none: it is not asked more often
  // for that, and its end says nothing about the calls.
  const bool was_taken = was_up_ && maker_.is_taken();
  if (was_up_) ++losses_in_a_row_;
  // Nor is one that takes connections and ends them at once, again and again, without an answer.
  // One that ends them when they have been idle for long is there.
  const bool is_long = flow_.now() - up_since_ >= limited(options_.delay_max);
  const bool may_be_there = was_taken && (is_long || losses_in_a_row_ <= kLossesBeforeSuspicion);
  if (may_be_there) backoff_.reset();
  stays_ = may_be_there;
  handle_failure(loss.cause);
  // A call that is being sealed does not wait for the next connection either.
  if (!options_.repeats_calls) flow_.cancel_sealing();
  // Neither does that of a connection that this side gave up, for a call that timed out.
  if (was_taken && !maker_.was_given_up()) blame_lonely_call(loss);
  maker_.retire();
}

// A call that was alone on each of several lost connections is what the server cannot stand.
void Connector::blame_lonely_call(const Error& loss) {
  CallSlot* const slot = flow_.waiting().take_lost_alone();
  if (slot == nullptr || ++slot->lost_alone < options_.losses_max) return;
  losses_in_a_row_ = 0;
  Error error = loss;
  error.operation = "the call";
  error.cause +=
      "; it was the only call under way on each of the last connections, and is not made again";
  flow_.waiting().fail(*slot, std::move(error));
}

void Connector::try_next() {
  handle_begun();
  if (!std::exchange(stays_, false)) choose_next_address();
  probes::client_connection_opened(&flow_, address());
  if (auto begun = maker_.begin(addresses_[at_]); !begun) {
    return handle_failure(std::move(begun.error().cause));
  }
  maker_.pump_begun();  // over RDMA, posts the Receives
}

void Connector::choose_next_address() {
  at_ = (at_ + 1) % addresses_.size();
  std::vector<std::string> found =
      finder_ != nullptr ? finder_->take() : std::vector<std::string>();
  // Resolvers give the addresses of a name in turn: another order of them is nothing new.
  if (found.empty() || std::ranges::is_permutation(found, addresses_)) return;
  const auto is_new = [this](const std::string& each) {
    return std::ranges::find(addresses_, each) == addresses_.end();
  };
  const auto first = std::ranges::find_if(found, is_new);
  at_ = first != found.end() ? static_cast<std::size_t>(first - found.begin()) : 0;
  addresses_ = std::move(found);
}

std::string_view Connector::last_failure() const noexcept {
  return was_up_ && !next_attempt_ ? std::string_view() : last_failure_;
}

std::string Connector::absence() const {
  std::string cause = "no connection to the server within the call's time";
  return last_failure_.empty() ? cause : cause + ": " + last_failure_;
}

}  // namespace rpcrdma::rpc
