// The RDMA connection manager: one channel of events for all connections of a provider.
#ifndef RPCRDMA_RDMA_VERBS_CM_H_
#define RPCRDMA_RDMA_VERBS_CM_H_

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "posix/address.h"
#include "posix/reactor.h"
#include "rdma/verbs/fork_guard.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

// A connection, a request or a listener as the connection manager knows it.
using CmId = Owned<rdma_cm_id, rdma_destroy_id>;

// An event, copied: by the time that it is handled it has been acknowledged, so that its receiver
// may destroy what it concerns.
struct CmEvent {
  rdma_cm_event_type type;
  int status;       // an errno, negative; or a reason of the transport's
  CmId connection;  // of a connection request; else null
  std::uint8_t responder_resources, initiator_depth;
  std::array<std::byte, 256> private_data;
  std::size_t private_size;
};

// An id's context points to one of these.
class CmTarget {
 public:
  virtual ~CmTarget() = default;
  virtual void handle_cm(CmEvent& event) = 0;
};

class CmChannel final : private posix::Watched {
 public:
  static Expected<std::unique_ptr<CmChannel>, Error> open(posix::Reactor& reactor);
  ~CmChannel() override;
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;

  // Null: errno says why.
  CmId make_id(CmTarget& target);
  // Events of the id come here from now on, to its own target. Precondition: no other thread is
  // about to handle one. False: errno says why.
  bool take_over(rdma_cm_id& id) noexcept { return rdma_migrate_id(&id, channel_.get()) == 0; }

 private:
  explicit CmChannel(posix::Reactor& reactor) : reactor_(reactor) {}
  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override {}

  posix::Reactor& reactor_;
  Owned<rdma_event_channel, rdma_destroy_event_channel> channel_;
};

// The address from which the system would send to `peer`; nullopt and errno when it has no way.
std::optional<posix::Address> local_address_for(const posix::Address& peer);
posix::Address without_port(const posix::Address& address);
bool is_loopback(const posix::Address& address);
bool is_wildcard(const posix::Address& address);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_CM_H_
