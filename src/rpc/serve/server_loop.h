// What a server waits for: its RDMA provider, the sockets of its TCP part, or both.
#ifndef RPCRDMA_RPC_SERVE_SERVER_LOOP_H_
#define RPCRDMA_RPC_SERVE_SERVER_LOOP_H_

#include <memory>
#include <optional>

#include "posix/reactor.h"
#include "rpcrdma/error.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class ServerLoop {
 public:
  // Null: there is no provider (yet).
  explicit ServerLoop(rdma::Provider* provider) noexcept
      : provider_(provider), wakes_provider_(provider != nullptr) {}

  rdma::Provider* provider() const noexcept { return provider_; }
  // Precondition: there is none. Fails as reactor() does.
  Expected<void, Error> set_provider(rdma::Provider& provider);
  // Precondition: it never listened. It is not used any more.
  void drop_provider() noexcept;
  // For sockets besides the provider's; made when it is asked for first. kUnsupported: the provider
  // cannot wait for it.
  Expected<posix::Reactor*, Error> reactor();

  // Moves what can be moved without waiting.
  void progress();
  Instant now() const noexcept {
    return provider_ != nullptr ? provider_->now() : posix::Reactor::now();
  }
  // At the end of a round: wait_fd() becomes readable at this time, or by deadlines of sockets.
  void arm_timer(std::optional<Instant> when);
  void wait();
  int wait_fd() const noexcept;
  void wake() noexcept;  // from any thread

 private:
  Expected<void, Error> join();

  rdma::Provider* provider_;
  std::unique_ptr<posix::Reactor> reactor_;
  // Whichever was there first is woken: the provider waits for the reactor as well, and threads
  // that wake the server see no change when the other one comes.
  bool wakes_provider_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SERVER_LOOP_H_
