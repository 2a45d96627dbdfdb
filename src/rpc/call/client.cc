#include "rpcrdma/client.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "rpc/call/connecting_client.h"
#include "rpc/call/tcp_client.h"
#include "rpc/engine_options.h"
#include "rpc/errors.h"
#include "rpc/provider_choice.h"
#include "rpc/security.h"
#include "rpc/serve/duplicate_calls.h"
#include "rpc/time_limit.h"
#include "rpc/url.h"
#include "rpcrdma/version_two.h"

namespace rpcrdma {
// --- Call --------------------------------------------------------------------------------------

Call::~Call() {
  if (impl_ != nullptr) impl_->flow().free(slot_);
}

ClientImpl& Call::impl() const noexcept {
  RPCRDMA_REQUIRE(impl_ != nullptr, "a Call that was started or moved from is used");
  return *impl_;
}

MessageWriter& Call::arguments() noexcept {
  return impl().message(slot_).writer;
}

void Call::place_result(MutableBytes destination) noexcept {
  auto& slot = impl().message(slot_);
  if (slot.result_count == slot.results.size() || destination.empty()) {
    slot.results_refused = true;
    return;
  }
  slot.results[slot.result_count++] = destination;
}

void Call::expect_results(std::uint32_t size_max) noexcept {
  impl().message(slot_).results_size_max = size_max;
}

void Call::time_out_after(std::chrono::nanoseconds timeout) noexcept {
  impl().message(slot_).timeout = rpc::limited(timeout);
}

// --- Reply -------------------------------------------------------------------------------------

// Apart from the destructor, which is on the way of each call.
[[gnu::cold]] static void report_unchecked() {
  if (std::uncaught_exceptions() > 0) return;
  misused("the results of a reply were read and not checked; call Reply::finish(), or decode()");
}

void Reply::end() noexcept {
  if (is_unchecked_) [[unlikely]]
    report_unchecked();
  impl_->flow().free(slot_);
}

ClientImpl& Reply::impl() const noexcept {
  RPCRDMA_REQUIRE(impl_ != nullptr, "a Reply that was moved from is used");
  return *impl_;
}

MessageReader& Reply::results() noexcept {
  is_unchecked_ = true;
  return impl().message(slot_).reader;
}

void Reply::view_results() noexcept {
  impl().message(slot_).reader.view();
}

std::optional<Error> Reply::finish() noexcept {
  is_unchecked_ = false;
  auto& slot = impl().message(slot_);
  if (slot.reader.finish()) return std::nullopt;
  const xdr::DecodeError& error = slot.reader.xdr().error();
  return Error{Errc::kBadReply, "decoding the results", std::string(impl().peer()),
               fmt::format("{} at byte {} of field '{}'", xdr::to_string(error.code), error.offset,
                           error.field)};
}

namespace {

// Addresses from the one at `first` on, and then those before it.
std::vector<std::string> from(std::vector<std::string> addresses, std::size_t first) {
  std::rotate(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(first),
              addresses.end());
  return addresses;
}

// Addresses of a client, and what finds others when none of them answers any more; null: nothing.
struct Place {
  std::vector<std::string> addresses;
  std::unique_ptr<rpc::AddressFinder> finder;
};

// Those of a URL, from the one at `first` on.
Place place_of(std::string_view url, const std::vector<std::string>& addresses, std::size_t first,
               const ClientOptions& options) {
  return {from(addresses, first),
          options.reconnect.enabled ? rpc::make_address_finder(url) : nullptr};
}

Expected<Client, Error> connect_tcp(Place place, ClientOptions options, bool blocks) {
  if (blocks) options.reconnect.retries_first = false;
  auto impl =
      TcpClient::begin_connect(std::move(place.addresses), std::move(place.finder), options);
  if (!impl) return Unexpected<Error>(impl.error());
  if (blocks) {
    if (auto up = (*impl)->await_connection(); !up) return Unexpected<Error>(up.error());
  }
  return TcpClient::client_of(std::move(*impl));
}

Expected<Client, Error> connect_over(std::unique_ptr<rdma::Provider> provider, Place place,
                                     const ClientOptions& given, bool blocks) {
  const std::string& address = place.addresses.front();
  if (!provider) return Unexpected<Error>(rpc::no_provider("connecting", address));
  auto secured = rpc::with_security(given, rpc::host_of(address));
  if (!secured) return Unexpected<Error>(secured.error());
  if (blocks) secured->reconnect.retries_first = false;
  const ClientOptions& options = *secured;
  rdma::Provider& borrowed = *provider;
  auto impl = std::make_unique<ConnectingClient>(std::move(provider), borrowed, options);
  auto connected = impl->begin_connect(std::move(place.addresses), std::move(place.finder));
  if (connected && blocks) connected = impl->await_connection();
  if (!connected) return Unexpected<Error>(connected.error());
  return ConnectingClient::client_of(std::move(impl));
}

Expected<Client, Error> connect_rdma(Place place, const ClientOptions& options, bool blocks) {
  auto provider = rpc::make_provider(options, place.addresses.front());
  if (!provider) return Unexpected<Error>(provider.error());
  return connect_over(std::move(*provider), std::move(place), options, blocks);
}

Expected<Client, Error> connect_to(std::string_view url, Place place, const ClientOptions& options,
                                   bool blocks) {
  return rpc::is_stream_url(url) ? connect_tcp(std::move(place), options, blocks)
                                 : connect_rdma(std::move(place), options, blocks);
}

// Blocks until one of the servers has answered.
Expected<Client, Error> connect_to_first(std::string_view url, const ClientOptions& given) {
  const auto secured = rpc::with_security(given, rpc::host_of_url(url));
  if (!secured) return Unexpected<Error>(secured.error());
  const ClientOptions& options = *secured;
  const auto addresses = rpc::addresses_of(url, false);
  if (!addresses) return Unexpected<Error>(addresses.error());
  Error last{Errc::kUnreachable, "connecting", std::string(url), "the host has no address"};
  for (std::size_t first = 0; first < addresses->size(); ++first) {
    auto client = connect_to(url, place_of(url, *addresses, first, options), options, true);
    if (client) return client;
    last = std::move(client.error());
  }
  return Unexpected<Error>(std::move(last));
}

}  // namespace

// --- ClientImpl --------------------------------------------------------------------------------

Expected<void, Error> ClientImpl::start(Call&& call, ReplyCallback&& callback) {
  if (auto error = flow_.begin(take_slot(call), false, std::move(callback))) {
    return Unexpected<Error>(std::move(*error));
  }
  handle_started();
  return {};
}

Expected<Reply, Error> ClientImpl::call(Call call) {
  RPCRDMA_REQUIRE(!flow_.in_round(), "a callback must not call progress(), call() or drain()");
  const std::uint32_t index = take_slot(call);
  if (auto error = flow_.begin(index, true, {})) return Unexpected<Error>(std::move(*error));
  rpc::CallSlot& slot = message(index);
  for (progress(); rpc::is_under_way(slot.state); progress()) wait();
  if (slot.state == rpc::CallState::kFailed) {
    Error error = std::move(*slot.error);
    flow_.free(index);
    return Unexpected<Error>(std::move(error));
  }
  return make_reply(index);
}

void ClientImpl::drain() {
  for (progress(); flow_.calls_in_flight() > 0; progress()) wait();
}

Error ClientImpl::unsupported(std::string operation, std::string cause) const {
  return {Errc::kUnsupported, std::move(operation), std::string(peer()), std::move(cause)};
}

Expected<void, Error> ClientImpl::resume(rpc::Session& /*session*/) {
  return Unexpected<Error>(
      unsupported("resuming calls of the client", "this client does not outlive its connection"));
}

Expected<int, Error> ClientImpl::give_up_socket() {
  return Unexpected<Error>(
      unsupported("stepping up", "only a tcp:// connection can, and this is one of RDMA"));
}

// --- Client ------------------------------------------------------------------------------------

Client::Client(std::unique_ptr<ClientImpl> impl) noexcept : impl_(std::move(impl)) {}
// The new owner may use it on another thread.
Client::Client(Client&& other) noexcept : impl_(std::move(other.impl_)) {
  if (impl_) impl_->owner().forget();
}
Client& Client::operator=(Client&& other) noexcept {
  if (this != &other) {
    ClientImpl::dispose(std::move(impl_));
    impl_ = std::move(other.impl_);
    if (impl_) impl_->owner().forget();
  }
  return *this;
}
ClientImpl& Client::impl() const noexcept {
  RPCRDMA_REQUIRE(impl_ != nullptr, "a Client that was moved from is used");
  impl_->owner().check("two threads use one Client; each thread needs a client of its own");
  return *impl_;
}
Client::~Client() {
  ClientImpl::dispose(std::move(impl_));
}

Destination::Destination(std::string_view url) noexcept : address_(url), is_of_provider_(false) {}
Destination::Destination(std::unique_ptr<rdma::Provider> provider,
                         std::string_view address) noexcept
    : address_(address), is_of_provider_(true), provider_(std::move(provider)) {}
Destination::Destination(Destination&& other) noexcept = default;
Destination::~Destination() = default;

Expected<Client, Error> Client::connect(Destination to, const ClientOptions& options) {
  if (!to.is_of_provider_) return connect_to_first(to.address_, options);
  return connect_over(std::move(to.provider_), {{std::string(to.address_)}, nullptr}, options,
                      true);
}

Expected<Client, Error> Client::begin_connect(Destination to, const ClientOptions& given) {
  if (to.is_of_provider_) {
    return connect_over(std::move(to.provider_), {{std::string(to.address_)}, nullptr}, given,
                        false);
  }
  const std::string_view url = to.address_;
  const auto secured = rpc::with_security(given, rpc::host_of_url(url));
  if (!secured) return Unexpected<Error>(secured.error());
  const ClientOptions& options = *secured;
  const auto addresses = rpc::addresses_of(url, false);
  if (!addresses) return Unexpected<Error>(addresses.error());
  return connect_to(url, place_of(url, *addresses, 0, options), options, false);
}

Expected<Call, Error> Client::prepare(const Procedure& procedure,
                                      std::uint32_t arguments_size_max) {
  return impl().flow().prepared().prepare(procedure, arguments_size_max);
}
Expected<Call, Error> Client::prepare_message(std::uint32_t size_max) {
  return impl().flow().prepared().prepare_message(size_max);
}
Expected<Reply, Error> Client::call(Call call) {
  return impl().call(std::move(call));
}
Expected<RegisteredMemory, Error> Client::register_memory(MutableBytes memory) {
  return impl().register_memory(memory, memory.data());
}
Expected<RegisteredMemory, Error> Client::register_read_only(Bytes memory) {
  return impl().register_memory(memory, nullptr);
}

Expected<void, Error> Client::start(Call call, ReplyCallback callback) {
  return impl().start(std::move(call), std::move(callback));
}
int Client::wait_fd() const noexcept {
  return impl().wait_fd();
}
void Client::progress() {
  impl().progress();
}
void Client::wait() {
  impl().wait();
}
void Client::drain() {
  impl().drain();
}
void Client::close() noexcept {
  impl().close();
}
bool Client::connected() const noexcept {
  return impl().connected();
}
bool Client::ended() const noexcept {
  return impl().ended();
}
std::uint32_t Client::calls_in_flight() const noexcept {
  return impl().flow().calls_in_flight();
}
ConnectionInfo Client::connection() const noexcept {
  const auto terms = impl().terms();
  return {impl().provider_name(), impl().peer(), terms ? terms->protocol_version : 0, terms};
}
VersionTwo Client::version_two() const noexcept {
  return VersionTwo(impl());
}
TransferCounters Client::counters() const noexcept {
  return impl().counters();
}
ClientIdentity Client::identity() const noexcept {
  return ClientIdentity(impl());
}

// --- ClientIdentity ----------------------------------------------------------------------------

void ClientIdentity::use(const AuthSys& credential) {
  impl_->flow().use_credential(credential);
}
Expected<Call, Error> ClientIdentity::logout_call() {
  const auto procedure = impl_->flow().logout_procedure();
  if (!procedure) {
    return Unexpected<Error>(Error{Errc::kSecurity, "logging out", std::string(impl_->peer()),
                                   "there is no security context that a server keeps"});
  }
  constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(5);
  auto call = impl_->flow().prepared().prepare(*procedure, 0);
  if (!call) return call;
  rpc::CallSlot& slot = impl_->message(ClientImpl::slot_of(*call));
  slot.step.seal.is_last = true;
  slot.timeout = std::min(slot.timeout, kPatience);
  return call;
}
void ClientIdentity::log_out() {
  if (auto call = logout_call()) (void)impl_->call(std::move(*call));
}

}  // namespace rpcrdma
