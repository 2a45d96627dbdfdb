#include "rdma/verbs/listener.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rdma/verbs/device.h"
#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr int kBacklog = 128;

std::string text_of(const sockaddr* address) {
  posix::Address copy;
  copy.size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&copy.storage, address, copy.size);
  return to_string(copy);
}

}  // namespace

Bytes private_data_of(const CmEvent& event, bool is_padded) {
  const Bytes all = Bytes(event.private_data).first(event.private_size);
  if (!is_padded) return all;
  const bool empty = std::ranges::all_of(all, [](std::byte value) { return value == std::byte{}; });
  return empty ? Bytes{} : all;
}

// --- Incoming ----------------------------------------------------------------------------------

Incoming::Incoming(CmEvent& request) : id_(std::move(request.connection)), request_{} {
  id_->context = static_cast<CmTarget*>(this);
  request_.responder_resources = request.responder_resources;
  request_.initiator_depth = request.initiator_depth;
  request_.private_data = request.private_data;
  request_.private_size = request.private_size;
  peer_address_ = text_of(rdma_get_peer_addr(id_.get()));
}

Incoming::~Incoming() {
  if (id_ && !id_.get_deleter().born.elsewhere()) (void)rdma_reject(id_.get(), nullptr, 0);
}

Bytes Incoming::private_data() const noexcept {
  const bool is_iwarp =
      id_ && id_->verbs != nullptr && id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  return private_data_of(request_, !is_iwarp);
}

bool Incoming::sends_with_invalidate() const noexcept {
  ibv_device_attr attributes{};
  if (!id_ || id_->verbs == nullptr || ibv_query_device(id_->verbs, &attributes) != 0) return false;
  return traits_of(*id_->verbs, attributes, Registration::kPerCall).send_with_invalidate;
}

bool Incoming::detach() {
  has_left_ = id_ && rdma_migrate_id(id_.get(), nullptr) == 0;
  return has_left_;
}

void Incoming::handle_cm(CmEvent& /*event*/) {
  gone_ = true;  // whatever it is, nothing can be accepted any more
}

// --- Listener ----------------------------------------------------------------------------------

Expected<std::unique_ptr<Listener>, Error> Listener::open(Shard& shard,
                                                          const posix::Address& address) {
  std::unique_ptr<Listener> made(new Listener(shard));
  made->id_ = shard.cm->make_id(*made);
  if (!made->id_) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "opening an RDMA identifier"});
  }
  posix::Address copy = address;
  if (rdma_bind_addr(made->id_.get(), copy.pointer()) != 0) {
    const bool foreign = errno == EADDRNOTAVAIL || errno == ENODEV;
    return Unexpected<Error>(
        Error{foreign ? Errc::kBadAddress : Errc::kProvider, errno, kBindingAddress});
  }
  if (is_wildcard(address)) made->devices_ = watch_devices(*shard.cm);
  if (auto tried = made->try_devices(); !tried) return Unexpected<Error>(tried.error());
  if (rdma_listen(made->id_.get(), kBacklog) != 0) {
    return Unexpected<Error>(Error{Errc::kProvider, errno, "listening for RDMA connections"});
  }
  made->address_ = text_of(rdma_get_local_addr(made->id_.get()));
  return made;
}

// A server that cannot register memory would drop each client without a word. At a
// wildcard address one device has to be good.
Expected<void, Error> Listener::try_devices() const {
  const auto attempt = [this](ibv_context& context) -> Expected<void, Error> {
    if (const int code = try_to_register(context); code != 0) {
      return Unexpected<Error>(Error{Errc::kNoResources, code, kRegisteringMemory});
    }
    if (shard_.options.shared_receives.count == 0) return {};
    auto device = shard_.device(context);
    if (!device) return Unexpected<Error>(device.error());
    auto pool = (*device)->shared_receives(shard_.options.shared_receives);
    if (!pool) return Unexpected<Error>(pool.error());
    return {};
  };
  if (id_->verbs != nullptr) return attempt(*id_->verbs);
  std::optional<Error> wrong;
  bool is_good = devices_.empty();
  for (const auto& each : devices_) {
    if (const auto tried = attempt(each->device()); tried) {
      is_good = true;
    } else {
      wrong = tried.error();
    }
  }
  if (is_good) return {};
  return Unexpected<Error>(*wrong);
}

std::unique_ptr<rdma::Incoming> Listener::poll_incoming() {
  if (incoming_.empty()) return nullptr;
  std::unique_ptr<Incoming> next = std::move(incoming_.front());
  incoming_.pop_front();
  return next;
}

std::optional<Error> Listener::failure() const noexcept {
  const bool all_removed =
      !devices_.empty() && std::ranges::all_of(devices_, &DeviceWatch::removed);
  if (!removed_ && !all_removed) return std::nullopt;
  return Error{Errc::kProvider, ENODEV, kDeviceRemoved};
}

void Listener::handle_cm(CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) removed_ = true;
  if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  auto incoming = std::make_unique<Incoming>(event);
  if (incoming_.size() < shard_.options.requests_max) incoming_.push_back(std::move(incoming));
}

}  // namespace rpcrdma::rdma::verbs
