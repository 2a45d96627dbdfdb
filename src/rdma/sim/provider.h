// The simulator's provider: one node of a World.
//
// It is the reference for what rdma/provider.h promises, stricter and nastier than any hardware,
// and deterministic. Addresses are any text that ends with ":PORT"; port 0 asks for a free one.
#ifndef RPCRDMA_RDMA_SIM_PROVIDER_H_
#define RPCRDMA_RDMA_SIM_PROVIDER_H_

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rdma/sim/world.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::sim {

class Provider final : public rdma::Provider {
 public:
  // `name` is copied; it shows up in no protocol.
  Provider(World& world, std::string name);
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  ~Provider() override;

  std::string_view name() const noexcept override { return name_; }
  Expected<std::unique_ptr<rdma::QueuePair>, Error> accept(std::unique_ptr<rdma::Incoming> request,
                                                           Bytes private_data) override;
  Expected<std::unique_ptr<rdma::QueuePair>, Error> connect(std::string_view address,
                                                            Bytes private_data) override;
  Expected<std::unique_ptr<rdma::Listener>, Error> listen(std::string_view address) override;
  // Lets happen, in the whole world, what is due now; the time stands still.
  void progress() override;
  int wait_fd() const noexcept override { return -1; }
  Instant now() const noexcept override { return world_.now(); }
  void arm_timer(std::optional<Instant> when) override { timer_ = when; }
  bool reports_invalidated_handle(std::string_view) const override { return remote_invalidation_; }
  // Instead of Options::remote_invalidation, for the connections made from now on.
  void set_remote_invalidation(bool possible) noexcept { remote_invalidation_ = possible; }
  // Lets the time pass to the next event or armed timer of the world, except after wake().
  void wait() override;
  void wake() noexcept override { woken_ = true; }

  // Returns whether wake() was called since the last call of this function, or since wait()
  // returned for it.
  bool take_wake() noexcept { return woken_.exchange(false); }
  // Sets the address that peers see of connections made from now on; 127.0.0.1 by default.
  void set_host(std::string host) { host_ = std::move(host); }

  // These are for the World.
  std::optional<Instant> timer() const noexcept { return timer_; }
  void disarm_if_due(Instant now) noexcept {
    if (timer_ && *timer_ <= now) timer_.reset();
  }

 private:
  World& world_;
  std::string name_;
  std::string host_ = "127.0.0.1";
  bool remote_invalidation_;
  std::optional<Instant> timer_;
  std::atomic<bool> woken_{false};
};

// A request for a connection, as it arrives at the listener.
struct ConnectRequest {
  World::QueuePairId initiator;
  std::string peer_address;
  std::vector<std::byte> private_data;
};

class Incoming final : public rdma::Incoming {
 public:
  Incoming(World& world, ConnectRequest request, bool sends_with_invalidate);
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;
  ~Incoming() override;  // refuses the request unless it was taken

  Bytes private_data() const noexcept override { return request_.private_data; }
  std::string_view peer_address() const noexcept override { return request_.peer_address; }
  bool sends_with_invalidate() const noexcept override { return sends_with_invalidate_; }
  bool receives_are_elastic() const noexcept override { return world_.options().shares_receives; }
  bool detach() override { return true; }  // any provider of its world may accept it
  ConnectRequest take();

 private:
  World& world_;
  ConnectRequest request_;
  bool sends_with_invalidate_;
  bool taken_ = false;
};

class Listener final : public rdma::Listener {
 public:
  // `remote_invalidation` is the provider's, which outlives it.
  Listener(World& world, const bool& remote_invalidation)
      : world_(world), remote_invalidation_(remote_invalidation) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() override;

  std::unique_ptr<rdma::Incoming> poll_incoming() override;
  std::string_view address() const noexcept override { return address_; }
  std::optional<Error> failure() const noexcept override { return failure_; }

  bool has_news() const noexcept { return !waiting_.empty(); }
  bool start(std::string_view address);  // false: somebody listens there already
  void handle_request(ConnectRequest request);
  void handle_device_removed();  // the world knows it no more

 private:
  World& world_;
  const bool& remote_invalidation_;
  std::string address_;
  std::optional<Error> failure_;
  std::deque<std::unique_ptr<Incoming>> waiting_;
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_PROVIDER_H_
