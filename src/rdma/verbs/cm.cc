#include "rdma/verbs/cm.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "posix/fd.h"
#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr const char* kManagerFile = "/dev/infiniband/rdma_cm";
constexpr int kEventsPerRound = 64;

}  // namespace

Expected<std::unique_ptr<CmChannel>, Error> CmChannel::open(posix::Reactor& reactor) {
  std::unique_ptr<CmChannel> made(new CmChannel(reactor));
  made->channel_.reset(rdma_create_event_channel());
  if (!made->channel_) {
    // librdmacm looks for the file elsewhere when it may not open it, and then has not found it.
    const int code = errno;
    const bool forbidden =
        ::access(kManagerFile, F_OK) == 0 && ::access(kManagerFile, R_OK | W_OK) != 0;
    return Unexpected<Error>(Error{Errc::kUnsupported, forbidden ? EACCES : code, kOpeningManager});
  }
  const int fd = made->channel_->fd;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      !reactor.watch(fd, EPOLLIN, *made)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "watching the connection manager"});
  }
  return made;
}

CmChannel::~CmChannel() {
  if (channel_ && !channel_.get_deleter().born.elsewhere()) reactor_.unwatch(channel_->fd, *this);
}

CmId CmChannel::make_id(CmTarget& target) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, &target, RDMA_PS_TCP) != 0) return nullptr;
  return CmId(id);
}

void CmChannel::handle_ready(std::uint32_t /*events*/) {
  rdma_cm_event* event = nullptr;
  // The rest is for the next round, since epoll says again that there is some: peers that connect
  // as fast as they can would keep this thread else.
  for (int left = kEventsPerRound; left > 0; --left) {
    if (rdma_get_cm_event(channel_.get(), &event) != 0) {
      // Other errors stay, and epoll would say so for ever. A lack of memory passes.
      if (errno != EAGAIN && errno != EINTR && errno != ENOMEM) {
        reactor_.unwatch(channel_->fd, *this);
      }
      return;
    }
    const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    rdma_cm_id* const concerned = is_request ? event->listen_id : event->id;
    auto* const target = static_cast<CmTarget*>(concerned->context);
    CmEvent copy{};
    copy.type = event->event;
    copy.status = event->status;
    if (is_request) copy.connection.reset(event->id);
    const rdma_conn_param& parameters = event->param.conn;
    copy.responder_resources = parameters.responder_resources;
    copy.initiator_depth = parameters.initiator_depth;
    if (parameters.private_data != nullptr &&
        (is_request || event->event == RDMA_CM_EVENT_ESTABLISHED)) {
      copy.private_size =
          std::min<std::size_t>(parameters.private_data_len, copy.private_data.size());
      std::memcpy(copy.private_data.data(), parameters.private_data, copy.private_size);
    }
    rdma_ack_cm_event(event);
    target->handle_cm(copy);
  }
}

posix::Address without_port(const posix::Address& address) {
  posix::Address copy = address;
  if (copy.family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&copy.storage)->sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in*>(&copy.storage)->sin_port = 0;
  }
  return copy;
}

std::optional<posix::Address> local_address_for(const posix::Address& peer) {
  const posix::Fd probe(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe || ::connect(probe.value(), peer.pointer(), peer.size) != 0) return std::nullopt;
  posix::Address local;
  local.size = sizeof(local.storage);
  if (::getsockname(probe.value(), local.pointer(), &local.size) != 0) return std::nullopt;
  return without_port(local);  // it was only the probe's
}

bool is_loopback(const posix::Address& address) {
  if (address.family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(
        &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  }
  const auto& four = reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr;
  return ntohl(four.s_addr) >> 24U == 127;
}

bool is_wildcard(const posix::Address& address) {
  if (address.family() == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(
        &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr == INADDR_ANY;
}

}  // namespace rpcrdma::rdma::verbs
