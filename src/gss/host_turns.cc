#include "gss/host_turns.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/peer_host.h"

namespace rpcrdma::gss {

HostTurns::HostTurns(Executor& executor, std::size_t at_a_time, std::size_t waiting_max)
    : executor_(executor),
      at_a_time_(std::max(at_a_time, std::size_t{1})),
      waiting_max_(waiting_max) {}

bool HostTurns::submit(std::string host, Executor::Work run) {
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[host];
    if (line.steps.size() >= waiting_max_) return false;
    if (line.steps.empty()) {
      line.host = std::move(host);
      turns_.push_back(&line);
    }
    line.steps.push_back(std::move(run));
    ++waiting_;
    if (under_way_ == at_a_time_) return true;
    ++under_way_;
    ++given_;
  }
  give();
  return true;
}

void HostTurns::give() {
  executor_.submit([this] { run_next(); });
}

void HostTurns::run_next() {
  Executor::Work run;
  {
    const std::lock_guard lock(mutex_);
    Line& line = *turns_.front();
    turns_.pop_front();
    run = std::move(line.steps.front());
    line.steps.pop_front();
    --waiting_;
    --given_;
    if (line.steps.empty()) {
      lines_.erase(lines_.find(line.host));
    } else {
      turns_.push_back(&line);
    }
  }
  run();
}

void HostTurns::end() {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_ == given_) {
      --under_way_;
      return;
    }
    ++given_;
  }
  give();
}

void HostQueue::submit(Executor::Work work) {
  const bool is_taken = turns_->submit(host_of_peer(peer_), std::move(work));
  RPCRDMA_ASSERT(is_taken, "the steps of calls are bounded by the number of calls alone");
}

}  // namespace rpcrdma::gss
