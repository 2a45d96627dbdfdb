#include "rpc/serve/server_loop.h"

#include <string>
#include <system_error>
#include <utility>

namespace rpcrdma::rpc {

Expected<void, Error> ServerLoop::set_provider(rdma::Provider& provider) {
  provider_ = &provider;
  auto joined = join();
  if (!joined) provider_ = nullptr;
  if (!reactor_) wakes_provider_ = provider_ != nullptr;
  return joined;
}

void ServerLoop::drop_provider() noexcept {
  provider_ = nullptr;
  if (!reactor_) wakes_provider_ = false;
}

Expected<posix::Reactor*, Error> ServerLoop::reactor() {
  if (reactor_) return reactor_.get();
  auto made = posix::Reactor::make();
  if (!made) {
    const std::string cause = std::generic_category().message(made.error().code);
    return Unexpected<Error>(Error{Errc::kNoResources, made.error().operation, "tcp", cause});
  }
  reactor_ = std::move(*made);
  if (auto joined = join(); !joined) {
    reactor_.reset();
    return Unexpected<Error>(joined.error());
  }
  return reactor_.get();
}

Expected<void, Error> ServerLoop::join() {
  if (provider_ == nullptr || !reactor_ || provider_->wait_also_for(reactor_->fd())) return {};
  return Unexpected<Error>(Error{Errc::kUnsupported, "listening", std::string(provider_->name()),
                                 "this provider cannot wait for TCP sockets as well"});
}

void ServerLoop::progress() {
  if (provider_ != nullptr) provider_->progress();
  if (reactor_) reactor_->dispatch();
}

void ServerLoop::arm_timer(Deadline when) {
  if (provider_ != nullptr) {
    provider_->arm_timer(when);
  } else if (reactor_) {
    reactor_->set_user_timer(when);
  }
  if (reactor_) reactor_->arm();
}

void ServerLoop::wait() {
  if (provider_ != nullptr) {
    provider_->wait();
  } else {
    reactor_->block();
  }
}

bool ServerLoop::linger() {
  return provider_ != nullptr && provider_->linger();
}

int ServerLoop::wait_fd() const noexcept {
  return provider_ != nullptr ? provider_->wait_fd() : reactor_->fd();
}

void ServerLoop::wake() noexcept {
  if (wakes_provider_) {
    provider_->wake();
  } else {
    reactor_->wake();
  }
}

}  // namespace rpcrdma::rpc
