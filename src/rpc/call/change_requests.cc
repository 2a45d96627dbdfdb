#include "rpc/call/change_requests.h"

#include <algorithm>
#include <utility>

namespace rpcrdma::rpc {

bool ChangeRequests::add(const engine::SmallValue& want, Instant at, ChangeCallback&& callback) {
  const bool is_there = std::ranges::any_of(
      requests_, [&](const Request& request) { return request.want.id == want.id; });
  if (is_there) return false;
  requests_.push_back({want, at, std::move(callback)});
  return true;
}

void ChangeRequests::take_ends(engine::OptionPort& port) {
  while (const auto end = port.poll_change()) {
    const auto found = std::ranges::find_if(requests_, [&](const Request& request) {
      return request.is_asked && request.want.id == end->id;
    });
    if (found == requests_.end()) continue;
    this->end(static_cast<std::size_t>(found - requests_.begin()), end->result);
  }
}

void ChangeRequests::progress(engine::Connection& engine, std::uint32_t version, Instant now) {
  engine::OptionPort& port = engine.option_port();
  take_ends(port);
  if (version == 0) return;
  // Requests that callbacks add have their turn in the next round.
  for (std::size_t i = 0, left = requests_.size(); left > 0; --left) {
    Request& request = requests_[i];
    const bool is_next = !request.is_asked && request.at <= now;
    if (is_next && version == 1) {  // after a reconnection
      end(i, ChangeResult::kRejected);
      continue;
    }
    // The engine has its limit: then it waits for others to end.
    if (is_next) request.is_asked = port.ask(request.want);
    ++i;
  }
}

void ChangeRequests::lose(engine::Connection& engine) {
  take_ends(engine.option_port());
  for (std::size_t i = 0, left = requests_.size(); left > 0; --left) {
    requests_[i].is_asked ? end(i, ChangeResult::kLost) : void(++i);
  }
}

void ChangeRequests::lose_all() {
  for (std::size_t left = requests_.size(); left > 0; --left) end(0, ChangeResult::kLost);
}

Deadline ChangeRequests::next(Instant now) const noexcept {
  Deadline first;
  for (const Request& request : requests_) {
    if (request.is_asked || request.at <= now) continue;
    if (!first || request.at < *first) first = request.at;
  }
  return first;
}

void ChangeRequests::end(std::size_t index, ChangeResult result) {
  const ChangeCallback callback = std::move(requests_[index].callback);
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
  if (callback) callback(result);
}

}  // namespace rpcrdma::rpc
