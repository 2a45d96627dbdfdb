#include "rpcrdma/server.h"

#include "rpc/errors.h"
#include "rpc/provider_choice.h"
#include "rpc/serve/server_impl.h"
#include "rpc/url.h"
#include "rpcrdma/auth.h"

namespace rpcrdma {

// Here, so that their type information is in the library.
ServerAuth::~ServerAuth() = default;
MessageService::~MessageService() = default;

namespace {

// With the provider that is there, or with one for this address.
Expected<std::string, Error> listen_rdma(ServerImpl& impl, const std::string& address) {
  if (impl.provider() != nullptr) return impl.listen(address);
  auto provider = rpc::make_provider(impl.options(), address);
  if (!provider) return Unexpected<Error>(provider.error());
  auto set = impl.set_provider(std::move(*provider));
  if (!set) return Unexpected<Error>(set.error());
  auto listening = impl.listen(address);
  if (!listening) impl.drop_provider();
  return listening;
}

Expected<std::string, Error> listen_with(ServerImpl& impl, std::string_view url) {
  if (impl.stopping()) {
    return Unexpected<Error>(
        Error{Errc::kCanceled, "listening", std::string(url), "the server is stopping"});
  }
  const bool is_stream = rpc::is_stream_url(url);
  const auto addresses = rpc::addresses_of(url, true);
  if (!addresses) return Unexpected<Error>(addresses.error());
  Error last{Errc::kBadUrl, "listening", std::string(url), "the host has no address"};
  for (const std::string& address : *addresses) {
    auto listening = is_stream ? impl.listen_tcp(address) : listen_rdma(impl, address);
    if (listening) return listening;
    last = std::move(listening.error());
  }
  return Unexpected<Error>(std::move(last));
}

}  // namespace

Server::Server(std::unique_ptr<ServerImpl> impl) noexcept : impl_(std::move(impl)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

Expected<Server, Error> Server::listen(std::string_view url, const ServerOptions& options) {
  auto impl = std::make_unique<ServerImpl>(nullptr, nullptr, options);
  auto listening = listen_with(*impl, url);
  if (!listening) return Unexpected<Error>(listening.error());
  return Server(std::move(impl));
}

Expected<Server, Error> Server::listen(std::unique_ptr<rdma::Provider> provider,
                                       std::string_view address, const ServerOptions& options) {
  if (!provider) return Unexpected<Error>(rpc::no_provider("listening", address));
  rdma::Provider* const borrowed = provider.get();
  auto impl = std::make_unique<ServerImpl>(std::move(provider), borrowed, options);
  if (auto listening = impl->listen(address); !listening) {
    return Unexpected<Error>(listening.error());
  }
  return Server(std::move(impl));
}

Expected<std::string, Error> Server::also_listen(std::string_view url) {
  return listen_with(*impl_, url);
}

Expected<void, Error> Server::accept_flavor(AuthFlavor flavor, ServerAuth& auth) {
  return impl_->accept_flavor(flavor, auth);
}
Expected<void, Error> Server::serve_messages(MessageService& service) {
  return impl_->serve_messages(service);
}
Expected<void, Error> Server::add(std::uint32_t program, std::uint32_t version, Service& service) {
  return impl_->add(program, version, service);
}
Expected<void, Error> Server::register_read_only(Bytes memory) {
  return impl_->register_read_only(memory);
}
Expected<void, Error> Server::adopt(int descriptor) {
  return impl_->adopt(descriptor);
}
std::string_view Server::address() const noexcept {
  return impl_->address();
}
std::string_view Server::provider_name() const noexcept {
  return impl_->provider() != nullptr ? impl_->provider()->name() : "tcp";
}

void Server::run() {
  for (progress(); !drained(); progress()) impl_->wait();
}
void Server::stop() noexcept {
  impl_->stop();
}
int Server::wait_fd() const noexcept {
  return impl_->wait_fd();
}
void Server::progress() {
  impl_->progress();
}
bool Server::drained() const noexcept {
  return impl_->drained();
}
const std::optional<Error>& Server::failure() const noexcept {
  return impl_->failure();
}
std::size_t Server::receives_posted() const noexcept {
  return impl_->receives_posted();
}
bool Server::shares_receives() const noexcept {
  return impl_->shares_receives();
}
std::size_t Server::connections() const noexcept {
  return impl_->connections();
}
std::size_t Server::memory_in_use() const noexcept {
  return impl_->memory_in_use();
}
TransferCounters Server::counters() const noexcept {
  return impl_->counters();
}

}  // namespace rpcrdma
