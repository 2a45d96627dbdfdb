#include "interop/nfs41/loop.h"

#include <poll.h>

#include <algorithm>

namespace rpcrdma::interop {

bool Loop::run_until(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  std::vector<pollfd> descriptors;
  for (;;) {
    for (Client* client : clients_) client->progress();
    if (done()) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    descriptors.clear();
    for (const Client* client : clients_) descriptors.push_back({client->wait_fd(), POLLIN, 0});
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(std::min<long>(left, 1000)));
  }
}

}  // namespace rpcrdma::interop
