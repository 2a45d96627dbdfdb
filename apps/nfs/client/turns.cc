#include "nfs/client/turns.h"

#include <poll.h>

#include <algorithm>
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

void Turns::run(rpcrdma::Client& client, rpcrdma::Task<void> task) {
  begin(std::move(task));
  for (resume_ready(); active_ > 0; resume_ready()) wait(client);
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

void Turns::wait(rpcrdma::Client& client) {
  if (timers_.empty()) {
    client.wait();
  } else {
    const auto first = std::ranges::min(timers_, {}, &Timer::end).end;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
    pollfd entry{client.wait_fd(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
  }
  client.progress();
}

}  // namespace nfs
