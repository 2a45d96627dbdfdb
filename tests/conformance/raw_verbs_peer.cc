#include "conformance/raw_verbs_peer.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "posix/address.h"

namespace rpcrdma::test {
namespace {

constexpr int kTimeoutMs = 5'000;
constexpr std::uint32_t kQueueDepth = 32;
constexpr std::uint8_t kForEver = 7;  // as a count of tries without a Receive
constexpr std::uint8_t kShortly = 8;  // InfiniBand's number for 0.16 ms between them

bool says_no(rdma_cm_event_type type) {
  return type == RDMA_CM_EVENT_ADDR_ERROR || type == RDMA_CM_EVENT_ROUTE_ERROR ||
         type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE ||
         type == RDMA_CM_EVENT_REJECTED;
}

}  // namespace

std::unique_ptr<RawVerbsPeer> RawVerbsPeer::make(const std::string& address, PumpUntil pump_until) {
  std::unique_ptr<RawVerbsPeer> made(new RawVerbsPeer(std::move(pump_until)));
  if (!made->find(address) || !made->make_queue()) return nullptr;
  return made;
}

RawVerbsPeer::~RawVerbsPeer() {
  if (id_ && id_->qp != nullptr) rdma_destroy_qp(id_.get());
}

bool RawVerbsPeer::find(const std::string& address) {
  auto to = posix::parse_address(address);
  // Bound to the device's own address, since the way from there to itself is the loopback's.
  auto from = posix::parse_address(address.substr(0, address.rfind(':')) + ":0");
  channel_.reset(rdma_create_event_channel());
  if (!to || !from || !channel_) return false;
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return false;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0) return false;
  id_.reset(id);
  return rdma_resolve_addr(id, from->pointer(), to->pointer(), kTimeoutMs) == 0 &&
         await(RDMA_CM_EVENT_ADDR_RESOLVED) && rdma_resolve_route(id, kTimeoutMs) == 0 &&
         await(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

bool RawVerbsPeer::make_queue() {
  domain_.reset(ibv_alloc_pd(id_->verbs));
  completions_.reset(ibv_create_cq(id_->verbs, 2 * kQueueDepth, nullptr, nullptr, 0));
  if (!domain_ || !completions_) return false;
  memory_.reset(ibv_reg_mr(domain_.get(), buffer_.data(), buffer_.size(),
                           static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE)));
  if (!memory_) return false;
  ibv_qp_init_attr wish{};
  wish.send_cq = wish.recv_cq = completions_.get();
  wish.qp_type = IBV_QPT_RC;
  wish.sq_sig_all = 1;
  wish.cap.max_send_wr = wish.cap.max_recv_wr = kQueueDepth;
  wish.cap.max_send_sge = wish.cap.max_recv_sge = 1;
  if (is_iwarp()) return rdma_create_qp(id_.get(), domain_.get(), &wish) == 0;
  own_queue_.reset(ibv_create_qp(domain_.get(), &wish));
  return own_queue_ && move_to(IBV_QPS_INIT);
}

bool RawVerbsPeer::move_to(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = state;
  if (rdma_init_qp_attr(id_.get(), &attributes, &mask) != 0) return false;
  attributes.min_rnr_timer = kShortly;  // looked at where the mask has it
  return ibv_modify_qp(own_queue_.get(), &attributes, mask) == 0;
}

bool RawVerbsPeer::request() {
  rdma_conn_param parameters{};
  parameters.retry_count = 7;
  parameters.rnr_retry_count = kForEver;
  parameters.qp_num = queue()->qp_num;
  return rdma_connect(id_.get(), &parameters) == 0;
}

bool RawVerbsPeer::await_answer() {
  if (is_iwarp()) return await(RDMA_CM_EVENT_ESTABLISHED);
  return await(RDMA_CM_EVENT_CONNECT_RESPONSE) && move_to(IBV_QPS_RTR) && move_to(IBV_QPS_RTS);
}

bool RawVerbsPeer::confirm() {
  return is_iwarp() || rdma_establish(id_.get()) == 0;
}

bool RawVerbsPeer::receive(std::uint32_t size) {
  ibv_sge slice{reinterpret_cast<std::uintptr_t>(buffer_.data()), size, memory_->lkey};
  ibv_recv_wr work{};
  work.sg_list = &slice;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(queue(), &work, &bad) == 0;
}

bool RawVerbsPeer::send(std::uint32_t size) {
  ibv_send_wr work{};
  work.opcode = IBV_WR_SEND;
  return post(work, size);
}

bool RawVerbsPeer::write(std::uint32_t size, const work::Remote& to) {
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE;
  work.wr.rdma.remote_addr = to.address;
  work.wr.rdma.rkey = static_cast<std::uint32_t>(to.tag);
  return post(work, size);
}

bool RawVerbsPeer::post(ibv_send_wr work, std::uint32_t size) {
  ibv_sge slice{reinterpret_cast<std::uintptr_t>(buffer_.data()), size, memory_->lkey};
  work.sg_list = &slice;
  work.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(queue(), &work, &bad) == 0;
}

std::optional<ibv_wc_status> RawVerbsPeer::next_completion() {
  ibv_wc completion{};
  if (!pump_until_([&] { return ibv_poll_cq(completions_.get(), 1, &completion) != 0; })) {
    return std::nullopt;
  }
  return completion.status;
}

bool RawVerbsPeer::has_heard(rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) == 0) {
    heard_.push_back(event->event);
    rdma_ack_cm_event(event);
  }
  return std::ranges::find(heard_, type) != heard_.end();
}

bool RawVerbsPeer::await(rdma_cm_event_type type) {
  (void)pump_until_([&] { return has_heard(type) || std::ranges::any_of(heard_, says_no); });
  return has_heard(type);
}

}  // namespace rpcrdma::test
