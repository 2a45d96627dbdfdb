#include "rdma/verbs/device.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "rdma/verbs/queue_events.h"

namespace rpcrdma::rdma::verbs {
namespace {

// The names of its devices are free; this number is its own.
constexpr std::uint32_t kSiwVendor = 0x626d74;
constexpr std::uint32_t kSiwInlineMax = 80;  // bytes
constexpr std::uint32_t kRxeVendor = 0xffffff;
// rxe hands out the flags of the kernel, where this bit is what is IBV_WC_WITH_INV outside of it.
constexpr unsigned kRxeWithInvalidate = 1U << 2U;

bool set_non_blocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// Returns the same budget for a device that was removed and has come back. It is never destroyed:
// static clients may go after anything that is.
ReadBudget& budget_of(const ibv_context& context, const ibv_device_attr& attributes) {
  static auto& mutex = *new std::mutex;
  static auto& budgets = *new std::map<std::string, ReadBudget, std::less<>>;  // guarded by mutex
  const std::lock_guard lock(mutex);
  return budgets.try_emplace(context.device->name, attributes.max_res_rd_atom).first->second;
}

}  // namespace

Traits traits_of(const ibv_context& context, const ibv_device_attr& attributes, Registration wish) {
  Traits traits{};
  const bool has_windows = (attributes.device_cap_flags &
                            (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0 &&
                           attributes.max_mw > 0;
  traits.registration = wish;
  if (wish == Registration::kAuto || (wish == Registration::kWindows && !has_windows)) {
    traits.registration = has_windows ? Registration::kWindows : Registration::kPerCall;
  }
  traits.is_iwarp = context.device->transport_type == IBV_TRANSPORT_IWARP;
  const bool siw = traits.is_iwarp && attributes.vendor_id == kSiwVendor;
  traits.send_with_invalidate = (attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  // A registration of ours cannot be invalidated by a peer: only windows can.
  traits.reports_invalidated_handle =
      traits.registration == Registration::kWindows && traits.send_with_invalidate;
  traits.read_sink_is_exposed = traits.is_iwarp && !siw;
  traits.prints_events = siw;
  const bool rxe = !traits.is_iwarp && attributes.vendor_id == kRxeVendor;
  traits.windows_want_care = rxe;
  traits.loses_shared_receives = rxe;
  traits.invalidated_flags = IBV_WC_WITH_INV | (rxe ? kRxeWithInvalidate : 0U);
  traits.wants_a_slice = siw;
  traits.lets_peers_read = siw;
  traits.garbles_short_reads = siw;
  traits.inlines_invalidation = !siw;
  traits.inline_limit = siw ? kSiwInlineMax : std::numeric_limits<std::uint32_t>::max();
  return traits;
}

Expected<std::unique_ptr<Device>, Error> Device::open(ibv_context& context, Registration wish,
                                                      posix::Reactor& reactor) {
  std::unique_ptr<Device> device(new Device(context, reactor));
  if (const int code = ibv_query_device(&context, &device->attributes_); code != 0) {
    return Unexpected<Error>(Error{Errc::kProvider, code, "asking the RDMA device"});
  }
  device->traits_ = traits_of(context, device->attributes_, wish);
  device->read_budget_ = &budget_of(context, device->attributes_);
  device->channel_.reset(ibv_create_comp_channel(&context));
  if (!device->channel_ || !set_non_blocking(device->channel_->fd) ||
      !reactor.watch(device->channel_->fd, EPOLLIN, device->completion_events_)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "opening a completion channel"});
  }
  if (device->traits_.prints_events) return device;
  if (!set_non_blocking(context.async_fd) ||
      !reactor.watch(context.async_fd, EPOLLIN, device->async_events_)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "watching the RDMA device"});
  }
  return device;
}

Expected<ReceivePool*, Error> Device::shared_receives(const SharedReceives& wish) {
  if (pool_ && pool_->has_failed()) {  // it stays for the connections that have it
    has_no_pool_ = true;
    failed_pool_ = std::move(pool_);
  }
  if (pool_) return pool_.get();
  if (wish.count == 0 || has_no_pool_ || !ReceivePool::obstacle(*this, wish).empty()) {
    return nullptr;
  }
  auto opened = ReceivePool::open(*this, wish);
  if (!opened) {
    has_no_pool_ = true;
    return Unexpected<Error>(opened.error());
  }
  pool_ = std::move(*opened);
  return pool_.get();
}

Device::~Device() {
  if (channel_.get_deleter().born.elsewhere()) return;  // epoll would forget it for the parent too
  if (channel_) reactor_.unwatch(channel_->fd, completion_events_);
  if (!traits_.prints_events) reactor_.unwatch(context_.async_fd, async_events_);
}

void Device::CompletionEvents::handle_ready(std::uint32_t /*events*/) {
  ibv_cq* queue = nullptr;
  void* owner = nullptr;
  do {
    if (ibv_get_cq_event(device.channel_.get(), &queue, &owner) != 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      device.is_lost_ = true;  // epoll would say for ever that it is ready
      return device.reactor_.unwatch(device.channel_->fd, *this);
    }
    ibv_ack_cq_events(queue, 1);
    static_cast<CompletionOwner*>(owner)->handle_completion_event();
    // With one queue there is no second event, and asking for it would be a system call each.
  } while (device.armed_ > 0);
}

void Device::AsyncEvents::handle_ready(std::uint32_t /*events*/) {
  ibv_async_event event{};
  for (;;) {
    if (ibv_get_async_event(&device.context_, &event) != 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      device.is_lost_ = true;
      return device.reactor_.unwatch(device.context_.async_fd, *this);
    }
    // Events of ports mean nothing to connections unless the connection manager reports them, too.
    if (event.event_type == IBV_EVENT_DEVICE_FATAL) device.is_lost_ = true;
    ReceivePool::deliver(event);
    QueueEvents::deliver(event, device.context_);
    if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
      device.tells_last_receive_ = device.has_told_last_receive_ = true;
    }
    ibv_ack_async_event(&event);
  }
}

}  // namespace rpcrdma::rdma::verbs
