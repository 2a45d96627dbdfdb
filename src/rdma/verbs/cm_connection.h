// One connection at the RDMA connection manager: its identifier, and what both sides say at its
// set-up. The queue pair tracks the state of the connection.
#ifndef RPCRDMA_RDMA_VERBS_CM_CONNECTION_H_
#define RPCRDMA_RDMA_VERBS_CM_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "posix/address.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/options.h"
#include "rdma/verbs/read_budget.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

class CmConnection {
 public:
  // `private_data` is ours; it is copied.
  CmConnection(std::string peer_address, Bytes private_data)
      : peer_address_(std::move(peer_address)),
        private_data_(private_data.begin(), private_data.end()) {}

  // The active side: an identifier of the device that the way to the peer begins at. kUnsupported
  // when that is no RDMA device. Events go to the target.
  Expected<void, Error> bind(CmChannel& channel, CmTarget& target, const posix::Address& peer);
  // Two steps before connect(); each ends with an event.
  Expected<void, Error> resolve_address(posix::Address peer, std::chrono::milliseconds timeout);
  Expected<void, Error> resolve_route(std::chrono::milliseconds timeout);
  // The passive side: the identifier of a request that arrived.
  void take_over(CmId id, const CmEvent& request, CmTarget& target);

  // Connects, or answers the request. Sets how many RDMA Reads each side may have in flight, as far
  // as that is known. Returns 0 or an errno. connect() blocks on devices that wait for the peer.
  int connect(const Device& device, const Options& options, Capabilities& capabilities);
  int accept(const Device& device, const Options& options, Capabilities& capabilities);
  // The answer to connect() has arrived.
  void note_answer(const CmEvent& event, const Device& device, Capabilities& capabilities);
  // A message of the peer has overtaken the connection manager's last one.
  void note_first_message() noexcept;
  void reject() noexcept;
  void disconnect() noexcept;
  // Gives the identifier up, which refuses a peer that waits.
  void release() noexcept { id_.reset(); }

  rdma_cm_id& id() const noexcept { return *id_; }
  std::string_view peer_address() const noexcept { return peer_address_; }
  Bytes peer_private_data() const noexcept { return peer_private_data_; }

 private:
  rdma_conn_param parameters() const noexcept;

  CmId id_;
  std::string peer_address_;
  std::vector<std::byte> private_data_;  // ours
  std::vector<std::byte> peer_private_data_;
  std::uint8_t responder_resources_ = 0, initiator_depth_ = 0;  // that the peer asked for
  ReadBudget::Share reads_served_;
};

// Returns why a connection was not set up. `code`: the errno of the event, or 0.
Error set_up_failure(rdma_cm_event_type event, int code);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_CM_CONNECTION_H_
