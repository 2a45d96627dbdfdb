// Waits for the RDMA provider of a server, for the sockets of its TCP part, or for both.
#ifndef RPCRDMA_RPC_SERVE_SERVER_LOOP_H_
#define RPCRDMA_RPC_SERVE_SERVER_LOOP_H_

#include <memory>

#include "base/deadline.h"
#include "posix/reactor.h"
#include "rpcrdma/error.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class ServerLoop {
 public:
  // `provider`: null if there is none (yet).
  explicit ServerLoop(rdma::Provider* provider) noexcept
      : provider_(provider), wakes_provider_(provider != nullptr) {}

  rdma::Provider* provider() const noexcept { return provider_; }
  // Precondition: there is no provider. Fails as reactor() does.
  Expected<void, Error> set_provider(rdma::Provider& provider);
  // Forgets the provider. Precondition: it never listened.
  void drop_provider() noexcept;
  // Returns the reactor for sockets besides the provider's, and makes it at the first call. Fails
  // with kUnsupported if the provider cannot wait for it.
  Expected<posix::Reactor*, Error> reactor();

  // Does what can be done without waiting.
  void progress();
  Instant now() const noexcept {
    return provider_ != nullptr ? provider_->now() : posix::Reactor::now();
  }
  // Called at the end of a round: wait_fd() becomes readable at this time, or at a deadline of a
  // socket.
  void arm_timer(Deadline when);
  void wait();
  bool linger();  // as Server::linger()
  int wait_fd() const noexcept;
  void wake() noexcept;  // from any thread

 private:
  Expected<void, Error> join();

  rdma::Provider* provider_;
  std::unique_ptr<posix::Reactor> reactor_;
  // wake() wakes the one that was there first: the provider waits for the reactor as well, and
  // threads that wake the server see no change when the other one comes.
  bool wakes_provider_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SERVER_LOOP_H_
