#include "rdma/verbs/device_queues.h"

#include <algorithm>
#include <cerrno>

#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

// More would only make the entries of the queue longer; what has more slices is put together.
constexpr std::uint32_t kSlicesInQueueMax = 8;

Unexpected<Error> not_opened() {
  return Unexpected<Error>(Error{Errc::kNoResources, errno, kOpeningQueue});
}

}  // namespace

Expected<void, Error> DeviceQueues::open(rdma_cm_id& id, Device& device, const Options& options,
                                         CompletionOwner& owner, ReceivePool* pool,
                                         PooledReceiver& receiver) {
  id_ = &id;
  device_ = &device;
  pool_ = pool;
  if (pool_ == nullptr) {
    own_domain_.reset(ibv_alloc_pd(id.verbs));
    if (!own_domain_) return not_opened();
  }
  const ibv_device_attr& can = device.attributes();
  constexpr std::uint32_t kSlack = SendQueue::kSlack;
  limits_.depth = std::min<std::uint32_t>(
      static_cast<std::uint32_t>(
          std::max(std::min(can.max_qp_wr, can.max_cqe / 2) - static_cast<int>(kSlack), 0)),
      options.queue_depth);
  const std::uint32_t completions = (pool_ != nullptr ? limits_.depth : 2 * limits_.depth) + kSlack;
  completions_.reset(
      ibv_create_cq(id.verbs, static_cast<int>(completions), &owner, &device.completions(), 0));
  if (!completions_ || !create_queue_pair(options)) return not_opened();
  events_.watch(*id.qp);
  if (pool_ != nullptr) pool_->add(*id.qp, receiver);
  return {};
}

// Devices do not tell beforehand how much goes inline, so they are asked by trying.
bool DeviceQueues::create_queue_pair(const Options& options) {
  ibv_qp_init_attr wish{};
  wish.qp_context = this;
  wish.send_cq = completions_.get();
  wish.recv_cq = pool_ != nullptr ? &pool_->completions() : completions_.get();
  wish.srq = pool_ != nullptr ? &pool_->queue() : nullptr;
  wish.qp_type = IBV_QPT_RC;
  const auto slices = static_cast<std::uint32_t>(std::clamp(device_->attributes().max_sge, 1, 24));
  limits_.slices_max = std::min(slices, kSlicesInQueueMax);
  for (const std::uint32_t inline_size : {options.inline_max, 128U, 80U, 64U, 0U}) {
    if (inline_size > options.inline_max) continue;
    wish.cap = {};
    wish.cap.max_send_wr = limits_.depth + SendQueue::kSlack;
    wish.cap.max_recv_wr = pool_ != nullptr ? 0 : limits_.depth;
    wish.cap.max_send_sge = limits_.slices_max;
    wish.cap.max_recv_sge = pool_ != nullptr ? 0 : limits_.slices_max;
    wish.cap.max_inline_data = inline_size;
    ++counters_.system_calls;
    if (rdma_create_qp(id_, &domain(), &wish) == 0) {
      limits_.inline_max = std::min(inline_size, device_->traits().inline_limit);
      return true;
    }
  }
  return false;
}

void DeviceQueues::destroy() noexcept {
  if (queue_pair() == nullptr || born_.elsewhere()) return;
  events_.forget();
  if (pool_ != nullptr) pool_->remove(*id_->qp);
  rdma_destroy_qp(id_);
}

bool DeviceQueues::arm() {
  if (armed_) return false;
  armed_ = ibv_req_notify_cq(completions_.get(), 0) == 0;
  if (armed_) device_->count_armed();
  return true;
}

void DeviceQueues::disarm() noexcept {
  if (armed_) device_->count_disarmed();
  armed_ = false;
}

bool DeviceQueues::stop() noexcept {
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(id_->qp, &error, IBV_QP_STATE) == 0;
}

bool DeviceQueues::stop_for_last_receive(bool was_answered) {
  if (pool_ == nullptr || born_.elsewhere() || queue_pair() == nullptr) return false;
  if (!stop() || !was_answered || !device_->tells_last_receive() || device_->is_lost()) {
    return false;
  }
  device_->take_events();
  return !events_.has_last_receive();
}

void DeviceQueues::wait_for_last_receive(posix::Yielding& yielding,
                                         std::chrono::milliseconds time_max) {
  const Instant end = posix::Reactor::now() + time_max;
  while (!events_.has_last_receive() && posix::Reactor::now() < end) {
    device_->take_events();
    yielding.yield();
  }
}

void DeviceQueues::shorten_wait_for_receives() noexcept {
  constexpr std::uint8_t k640Microseconds = 12;  // librdmacm has it as long as can be, 0.66 s
  ibv_qp_attr timer{};
  timer.min_rnr_timer = k640Microseconds;
  (void)ibv_modify_qp(id_->qp, &timer, IBV_QP_MIN_RNR_TIMER);
}

}  // namespace rpcrdma::rdma::verbs
