#include "rpcrdma/server.h"

#include <utility>

#include "posix/fd.h"
#include "rpc/errors.h"
#include "rpc/serve/shard_group.h"
#include "rpc/url.h"

namespace rpcrdma {

// Here, so that its type information is in the library.
MessageService::~MessageService() = default;

namespace {

Expected<std::string, Error> listen_with(rpc::ShardGroup& group, std::string_view url) {
  if (group.first().stopping()) {
    return Unexpected<Error>(
        Error{Errc::kCanceled, "listening", std::string(url), "the server is stopping"});
  }
  const bool is_stream = rpc::is_stream_url(url);
  const auto addresses = rpc::addresses_of(url, true);
  if (!addresses) return Unexpected<Error>(addresses.error());
  Error last{Errc::kBadUrl, "listening", std::string(url), "the host has no address"};
  for (const std::string& address : *addresses) {
    auto listening = is_stream ? group.listen_tcp(address) : group.listen_rdma(address);
    if (listening) return listening;
    last = std::move(listening.error());
  }
  return Unexpected<Error>(std::move(last));
}

}  // namespace

Server::Server(std::unique_ptr<rpc::ShardGroup> shards) noexcept : shards_(std::move(shards)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&& other) noexcept {
  if (this != &other) rpc::ShardGroup::end(std::exchange(shards_, std::move(other.shards_)));
  return *this;
}
Server::~Server() {
  rpc::ShardGroup::end(std::move(shards_));
}

Expected<Server, Error> Server::listen(std::string_view url, const ServerOptions& options) {
  auto shards = std::make_unique<rpc::ShardGroup>(nullptr, nullptr, options);
  auto listening = listen_with(*shards, url);
  if (!listening) return Unexpected<Error>(listening.error());
  return Server(std::move(shards));
}

Expected<Server, Error> Server::listen(std::unique_ptr<rdma::Provider> provider,
                                       std::string_view address, const ServerOptions& options) {
  if (!provider) return Unexpected<Error>(rpc::no_provider("listening", address));
  rdma::Provider* const borrowed = provider.get();
  auto shards = std::make_unique<rpc::ShardGroup>(std::move(provider), borrowed, options);
  if (auto listening = shards->listen_rdma(std::string(address)); !listening) {
    return Unexpected<Error>(listening.error());
  }
  return Server(std::move(shards));
}

Expected<std::string, Error> Server::add_listener(std::string_view url) {
  if (auto still = shards_->expect_still("listening"); !still) {
    return Unexpected<Error>(still.error());
  }
  return listen_with(*shards_, url);
}

Expected<std::string, Error> Server::add_listener(int descriptor) {
  posix::Fd socket(descriptor);
  if (auto still = shards_->expect_still("listening"); !still) {
    return Unexpected<Error>(still.error());
  }
  return shards_->listen_tcp(std::move(socket));
}

Expected<void, Error> Server::accept_flavor(AuthFlavor flavor, ServerAuth& auth) {
  if (auto still = shards_->expect_still("accepting a flavor"); !still) return still;
  return shards_->accept_flavor(flavor, auth);
}
Expected<void, Error> Server::secure(const gss::ServerSecurity& security) {
  if (auto still = shards_->expect_still("accepting a flavor"); !still) return still;
  return shards_->secure(security);
}
Expected<void, Error> Server::require(std::uint32_t program, std::uint32_t version,
                                      std::vector<Protection> allowed,
                                      std::optional<std::uint32_t> procedure) {
  if (auto still = shards_->expect_still("requiring protection"); !still) return still;
  return shards_->require(program, version, std::move(allowed), procedure);
}
Expected<void, Error> Server::serve_messages(MessageService& service) {
  if (auto still = shards_->expect_still("adding a service"); !still) return still;
  return shards_->serve_messages(service);
}
Expected<void, Error> Server::add(std::uint32_t program, std::uint32_t version, Service& service) {
  if (auto still = shards_->expect_still("adding a service"); !still) return still;
  return shards_->add(program, version, service);
}
Expected<void, Error> Server::register_read_only(Bytes memory) {
  if (auto still = shards_->expect_still("registering memory"); !still) return still;
  return shards_->register_read_only(memory);
}
Expected<void, Error> Server::adopt(int descriptor) {
  return shards_->first().adopt(descriptor);
}
std::string_view Server::address() const noexcept {
  return shards_->first().address();
}
std::string_view Server::provider_name() const noexcept {
  const rdma::Provider* const provider = shards_->first().loop().provider();
  return provider != nullptr ? provider->name() : "tcp";
}

void Server::run() {
  for (progress(); !drained(); progress()) shards_->first().loop().wait();
}
void Server::stop() noexcept {
  shards_->stop();
}
int Server::wait_fd() const noexcept {
  return shards_->first().loop().wait_fd();
}
void Server::progress() {
  shards_->progress();
}
bool Server::linger() {
  return shards_->first().loop().linger();
}
bool Server::drained() const noexcept {
  return shards_->drained();
}
const std::optional<Error>& Server::failure() const noexcept {
  return shards_->first().failure();
}
std::size_t Server::receives_posted() const noexcept {
  return shards_->statistics(rpc::ShardGroup::Asker::kOwner).receives_posted;
}
bool Server::shares_receives() const noexcept {
  return shards_->statistics(rpc::ShardGroup::Asker::kOwner).shares_receives;
}
std::size_t Server::connections() const noexcept {
  return shards_->connections();
}
std::size_t Server::memory_in_use() const noexcept {
  return shards_->statistics(rpc::ShardGroup::Asker::kOwner).memory_in_use;
}
ServerStatistics Server::statistics(bool with_connections) const {
  return shards_->statistics(rpc::ShardGroup::Asker::kAnybody, with_connections);
}
TransferCounters Server::counters() const noexcept {
  return shards_->statistics(rpc::ShardGroup::Asker::kOwner).counters;
}

}  // namespace rpcrdma
