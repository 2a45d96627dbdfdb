#include "rdma/verbs/cm_connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/verbs/listener.h"
#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

// The RDMA Reads that we ask for: no more than the device can, or the field can hold.
std::uint8_t reads(int limit, std::uint32_t wish) {
  const int most = std::clamp(limit, 0, 255);
  return static_cast<std::uint8_t>(std::min(static_cast<std::uint32_t>(most), wish));
}

Unexpected<Error> failed(Errc code, std::string_view operation) {
  return Unexpected<Error>(Error{code, errno, operation});
}

}  // namespace

Expected<void, Error> CmConnection::bind(CmChannel& channel, CmTarget& target,
                                         const posix::Address& peer) {
  auto local = local_address_for(peer);
  if (!local) return failed(Errc::kProvider, "looking for the route");
  id_ = channel.make_id(target);
  if (!id_) return failed(Errc::kNoResources, "opening an RDMA identifier");
  // Bound to where the system would send from, the device is known at once, and with it where
  // memory is registered; resolving the peer takes its time.
  if (rdma_bind_addr(id_.get(), local->pointer()) != 0 || id_->verbs == nullptr) {
    return Unexpected<Error>(Error{Errc::kUnsupported, ENODEV, kNoDeviceOnTheWay});
  }
  return {};
}

Expected<void, Error> CmConnection::resolve_address(posix::Address peer,
                                                    std::chrono::milliseconds timeout) {
  const auto limit = static_cast<int>(timeout.count());
  if (rdma_resolve_addr(id_.get(), nullptr, peer.pointer(), limit) == 0) return {};
  return failed(Errc::kProvider, "resolving the peer's address");
}

Expected<void, Error> CmConnection::resolve_route(std::chrono::milliseconds timeout) {
  if (rdma_resolve_route(id_.get(), static_cast<int>(timeout.count())) == 0) return {};
  return failed(Errc::kProvider, "resolving the route to the peer");
}

void CmConnection::take_over(CmId id, const CmEvent& request, CmTarget& target) {
  id_ = std::move(id);
  id_->context = &target;
  const bool is_iwarp = id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  const Bytes told = private_data_of(request, !is_iwarp);
  peer_private_data_.assign(told.begin(), told.end());
  responder_resources_ = request.responder_resources;
  initiator_depth_ = request.initiator_depth;
}

rdma_conn_param CmConnection::parameters() const noexcept {
  rdma_conn_param parameters{};
  parameters.private_data = private_data_.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data_.size());
  return parameters;
}

int CmConnection::connect(const Device& device, const Options& options,
                          Capabilities& capabilities) {
  const ibv_device_attr& can = device.attributes();
  rdma_conn_param wish = parameters();
  reads_served_ = device.read_budget().take(reads(can.max_qp_rd_atom, options.ird));
  wish.responder_resources = reads_served_.reads();
  wish.initiator_depth = reads(can.max_qp_init_rd_atom, options.ord);
  capabilities.reads_served_max = wish.responder_resources;
  wish.retry_count = 7;
  // Credits see to it that a Receive is there; where none is, something is wrong (RFC 8166 §3.3.1).
  wish.rnr_retry_count = 0;
  return rdma_connect(id_.get(), &wish) == 0 ? 0 : errno;
}

// The peer asks for so many Reads that it may have in flight, and serves so many of ours.
int CmConnection::accept(const Device& device, const Options& options, Capabilities& capabilities) {
  const ibv_device_attr& can = device.attributes();
  rdma_conn_param answer = parameters();
  reads_served_ = device.read_budget().take(
      reads(std::min<int>(can.max_qp_rd_atom, responder_resources_), options.ird));
  answer.responder_resources = reads_served_.reads();
  answer.initiator_depth =
      reads(std::min<int>(can.max_qp_init_rd_atom, initiator_depth_), options.ord);
  // With shared Receives another peer may have taken, for a moment, what it was not granted.
  constexpr std::uint8_t kForEver = 7;
  answer.rnr_retry_count = capabilities.shares_receives ? kForEver : 0;
  capabilities.reads_in_flight_max = answer.initiator_depth;  // 0: it serves none
  capabilities.reads_served_max = answer.responder_resources;
  return rdma_accept(id_.get(), &answer) == 0 ? 0 : errno;
}

void CmConnection::note_answer(const CmEvent& event, const Device& device,
                               Capabilities& capabilities) {
  const bool is_iwarp = device.traits().is_iwarp;
  const Bytes told = private_data_of(event, !is_iwarp);
  peer_private_data_.assign(told.begin(), told.end());
  if (event.initiator_depth > 0 || !is_iwarp) {  // siw does not always tell
    capabilities.reads_in_flight_max =
        std::min<std::uint32_t>(capabilities.reads_in_flight_max, event.initiator_depth);
  }
}

void CmConnection::note_first_message() noexcept {
  (void)rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
}

void CmConnection::reject() noexcept {
  (void)rdma_reject(id_.get(), nullptr, 0);
}

void CmConnection::disconnect() noexcept {
  (void)rdma_disconnect(id_.get());
}

Error set_up_failure(rdma_cm_event_type event, int code) {
  if (event == RDMA_CM_EVENT_REJECTED || code == ECONNREFUSED) {
    // Some transports report this for a listener that does not exist, others for one that rejected
    // us.
    return {Errc::kRefused, ECONNREFUSED, "the peer refused the connection"};
  }
  if (code == ETIMEDOUT || event == RDMA_CM_EVENT_UNREACHABLE) {
    return {Errc::kTimedOut, code, "the peer does not answer"};
  }
  if (event == RDMA_CM_EVENT_ADDR_ERROR || event == RDMA_CM_EVENT_ROUTE_ERROR) {
    return {Errc::kProvider, code, "finding the way to the peer"};
  }
  return {Errc::kProvider, code, "connecting"};
}

}  // namespace rpcrdma::rdma::verbs
