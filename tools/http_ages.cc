#include "tools/http_ages.h"

#include <sys/socket.h>

namespace rpcrdma::tools {

HttpAges::HttpAges(std::chrono::milliseconds time_max)
    : time_max_(time_max), thread_([this] { run(); }) {}

HttpAges::~HttpAges() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

HttpAges::Handle HttpAges::begin(int socket) {
  const std::lock_guard lock(mutex_);
  connections_.push_back({socket, std::chrono::steady_clock::now() + time_max_});
  if (connections_.size() == 1) changed_.notify_one();
  return std::prev(connections_.end());
}

void HttpAges::end(Handle connection) {
  const std::lock_guard lock(mutex_);
  // It may have moved to ended_; a handle stays good.
  std::list<Connection> gone;
  gone.splice(gone.begin(), connection->socket < 0 ? ended_ : connections_, connection);
}

void HttpAges::run() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    if (connections_.empty()) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < connections_.front().end) {
      const auto end = connections_.front().end;  // the connection may go meanwhile
      changed_.wait_until(lock, end);
    } else {
      Connection& oldest = connections_.front();
      // The daemon's thread of it sees the end, and closes it.
      (void)::shutdown(oldest.socket, SHUT_RDWR);
      oldest.socket = -1;
      ended_.splice(ended_.end(), connections_, connections_.begin());
    }
  }
}

}  // namespace rpcrdma::tools
