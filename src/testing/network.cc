#include <string>
#include <utility>

#include "rdma/sim/provider.h"
#include "rdma/sim/world.h"
#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "rpcrdma/testing.h"

namespace rpcrdma::testing {
namespace {

rdma::sim::Options world_options(const NetworkOptions& options) {
  rdma::sim::Options made;
  made.latency_max = options.latency_max;
  made.refuse_one_in = options.refused_one_in;
  made.attach_fails_one_in = made.expose_fails_one_in = options.no_memory_one_in;
  made.disconnect_every = options.connection_lost_every;
  return made;
}

}  // namespace

class Network::Impl {
 public:
  Impl(std::uint64_t seed, const NetworkOptions& options) : world_(seed, world_options(options)) {}

  rdma::sim::World& world() noexcept { return world_; }
  const rdma::sim::World& world() const noexcept { return world_; }
  rdma::sim::Provider& add_node(std::string name) {
    auto node = std::make_unique<rdma::sim::Provider>(world_, std::move(name));
    // Hosts of their own: clients that begin at one virtual time have the same XIDs.
    node->set_host("node" + std::to_string(nodes_.size()));
    return *nodes_.emplace_back(std::move(node));
  }
  bool take_wakes() {
    bool any = false;
    for (const auto& node : nodes_) any = node->take_wake() || any;
    return any;
  }

 private:
  rdma::sim::World world_;
  std::vector<std::unique_ptr<rdma::sim::Provider>> nodes_;
};

Network::Network(std::uint64_t seed, const NetworkOptions& options)
    : impl_(std::make_unique<Impl>(seed, options)) {}
Network::~Network() = default;

Expected<Server, Error> Network::listen(std::string_view address, const ServerOptions& options) {
  std::string whole(address);
  if (whole.find(':') == std::string::npos) whole += ":0";
  return ServerImpl::listen_on(impl_->add_node(whole), whole, options);
}

Expected<Client, Error> Network::connect(std::string_view address, const ClientOptions& options) {
  return ConnectingClient::connect_on(impl_->add_node("client"), address, options);
}

Instant Network::now() const noexcept {
  return impl_->world().now();
}

bool Network::step() {
  // Work that is due now takes no virtual time.
  return impl_->take_wakes() || impl_->world().pass_time();
}

void Network::stop_faults() {
  impl_->world().stop_faults();
}

std::vector<std::string> Network::violations() const {
  return impl_->world().violations();
}

}  // namespace rpcrdma::testing
