// The parts of a client that few programs need, in objects of their own.
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "rpc/call/connecting_client.h"
#include "rpc/engine_options.h"
#include "rpc/provider_choice.h"
#include "rpcrdma/backward.h"
#include "rpcrdma/take_over.h"
#include "rpcrdma/version_two.h"

namespace rpcrdma {
namespace {

// The context is one that the application has made itself, to try a service for one.
Unexpected<Error> not_of_a_connection(std::string_view operation) {
  return Unexpected<Error>(Error{Errc::kUnsupported, std::string(operation), "",
                                 "the call did not come over a connection of this library"});
}

Unexpected<Error> needs_version_two(const ClientImpl& client, const char* operation) {
  return Unexpected<Error>(
      Error{Errc::kUnsupported, operation, std::string(client.peer()),
            "only a client that is connected, and has made its connection in RPC-over-RDMA version "
            "two (ClientOptions::version), can do that"});
}

}  // namespace

// --- Backward ----------------------------------------------------------------------------------

Expected<Client, Error> Backward::client_of(const CallContext& context,
                                            const BackwardOptions& options) {
  rpc::Session* const session = rpc::session_of(context);
  if (session == nullptr) return not_of_a_connection("calling the client");
  return session->mailbox().client_of(*session, options);
}
Expected<void, Error> Backward::resume(Client& client, const CallContext& context) {
  rpc::Session* const session = rpc::session_of(context);
  if (session == nullptr) return not_of_a_connection("resuming calls of the client");
  return client.impl().resume(*session);
}

Expected<void, Error> Backward::serve(Client& client, std::uint32_t program, std::uint32_t version,
                                      Service& service) {
  return client.impl().serve(program, version, service);
}

// --- TakeOver ----------------------------------------------------------------------------------

Expected<Client, Error> TakeOver::adopt(int descriptor, ClientOptions options) {
  options.reconnect.enabled = false;
  auto provider = rpc::make_tcp_provider(options);
  if (!provider) {
    ::close(descriptor);
    return Unexpected<Error>(provider.error());
  }
  rdma::Provider& borrowed = **provider;
  auto impl = std::make_unique<ConnectingClient>(std::move(*provider), borrowed, options);
  auto adopted = impl->begin_adopt(descriptor);
  if (adopted) adopted = impl->await_connection();
  if (!adopted) return Unexpected<Error>(adopted.error());
  return ConnectingClient::client_of(std::move(impl));
}

Expected<Client, Error> TakeOver::step_up(Client& client, ClientOptions options) {
  const auto descriptor = client.impl().give_up_socket();
  if (!descriptor) return Unexpected<Error>(descriptor.error());
  return adopt(*descriptor, std::move(options));
}

// --- VersionTwo --------------------------------------------------------------------------------

std::optional<ConnectionCharacteristics> VersionTwo::characteristics() const noexcept {
  return impl_->characteristics();
}
Expected<void, Error> VersionTwo::request_receive_size(std::uint32_t size, ChangeCallback callback,
                                                       std::chrono::nanoseconds delay) {
  std::array<std::byte, xdr::kWordSize> value{};
  xdr::store_word(value.data(), size);
  return request_characteristic(rpc::kReceiveSizeId, value, std::move(callback), delay);
}
Expected<void, Error> VersionTwo::raise_receive_size(std::uint32_t size) {
  if (rpc::VersionTwoRequests* two = impl_->version_two()) return two->raise_receive_size(size);
  return needs_version_two(*impl_, "raising the receive size");
}
Expected<void, Error> VersionTwo::request_characteristic(std::uint32_t id, Bytes value,
                                                         ChangeCallback callback,
                                                         std::chrono::nanoseconds delay) {
  if (rpc::VersionTwoRequests* two = impl_->version_two()) {
    return two->request_change(id, value, std::move(callback), delay);
  }
  return needs_version_two(*impl_, "requesting a change");
}
Expected<void, Error> VersionTwo::set_characteristic(std::uint32_t id, Bytes value) {
  if (rpc::VersionTwoRequests* two = impl_->version_two())
    return two->set_characteristic(id, value);
  return needs_version_two(*impl_, "setting a characteristic");
}
std::optional<std::vector<std::byte>> VersionTwo::peer_characteristic(std::uint32_t id) const {
  const rpc::VersionTwoRequests* two = impl_->version_two();
  return two != nullptr ? two->peer_characteristic(id) : std::nullopt;
}
}  // namespace rpcrdma
