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

void ChangeRequests::progress(engine::Connection& engine, std::uint32_t version, Instant now) {
  now_ = now;
  engine::OptionPort& port = engine.option_port();
  while (const auto end = port.poll_change()) {
    const auto found = std::ranges::find_if(requests_, [&](const Request& request) {
      return request.is_asked && request.want.id == end->id;
    });
    if (found == requests_.end()) continue;
    this->end(static_cast<std::size_t>(found - requests_.begin()), end->result);
  }
  if (version == 0) return;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& request = requests_[i];
    if (request.is_asked || request.at > now) continue;
    request.is_asked = port.ask(request.want);
    if (!request.is_asked) end(i--, ChangeResult::kRejected);  // version 1, after a reconnection
  }
}

void ChangeRequests::lose_all() {
  while (!requests_.empty()) end(0, ChangeResult::kLost);
}

std::optional<Instant> ChangeRequests::next() const noexcept {
  std::optional<Instant> first;
  for (const Request& request : requests_) {
    if (request.is_asked || request.at <= now_) continue;
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
