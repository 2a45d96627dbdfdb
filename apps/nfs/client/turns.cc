#include "nfs/client/turns.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace nfs {

rpcrdma::Task<void> Turns::counted(rpcrdma::Task<void> task) {
  co_await std::move(task);
  --active_;
}

void Turns::begin(rpcrdma::Task<void> task) {
  ++active_;
  rpcrdma::start_detached(counted(std::move(task)));
}

void Turns::run(const std::vector<Connections*>& connections, rpcrdma::Task<void> task) {
  begin(std::move(task));
  for (resume_ready(); active_ > 0; resume_ready()) wait(connections);
}

void Turns::resume_ready() {
  const auto now = Clock::now();
  std::erase_if(timers_, [&](const Timer& each) {
    if (each.end > now) return false;
    ready_.push_back(each.coroutine);
    return true;
  });
  while (!ready_.empty()) {
    const auto next = ready_.front();
    ready_.pop_front();
    next.resume();
  }
}

std::optional<Turns::Clock::time_point> Turns::next_time() const {
  if (!ready_.empty()) return Clock::now();
  if (timers_.empty()) return std::nullopt;
  return std::ranges::min(timers_, {}, &Timer::end).end;
}

void Turns::wait(const std::vector<Connections*>& connections) {
  const auto first = next_time();
  if (connections.size() == 1) {
    connections.front()->wait(first);
  } else {
    Connections::wait(connections, first);
  }
  for (Connections* each : connections) each->progress();
}

}  // namespace nfs
