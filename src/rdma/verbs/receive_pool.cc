#include "rdma/verbs/receive_pool.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "rdma/verbs/device.h"
#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

// Not a multiple of the page size: what is at the same place of each page shares few lines of a
// cache.
std::size_t stride_of(const SharedReceives& wish) {
  constexpr std::size_t kAlignment = 64;
  return ((wish.size + kAlignment - 1) & ~(kAlignment - 1)) + 3 * kAlignment;
}

// The pools of the process. They are never destroyed: static servers may go after anything that is.
struct Pools {
  std::mutex mutex;
  std::set<ReceivePool*> all;  // under mutex
};
Pools& pools() {
  static Pools& pools = *new Pools;
  return pools;
}

}  // namespace

void ReceivePool::deliver(const ibv_async_event& event) noexcept {
  const bool is_shared = event.event_type == IBV_EVENT_SRQ_ERR;
  if (!is_shared && event.event_type != IBV_EVENT_CQ_ERR) return;
  const std::lock_guard lock(pools().mutex);
  for (ReceivePool* const each : pools().all) {
    const bool is_its = is_shared ? event.element.srq == each->queue_.get()
                                  : event.element.cq == each->completions_.get();
    if (is_its) each->has_failed_ = true;
  }
}

std::string_view ReceivePool::obstacle(const Device& device, const SharedReceives& wish) {
  const ibv_device_attr& can = device.attributes();
  if (can.max_srq <= 0 || can.max_srq_wr <= 0) return "the device has no shared receive queue";
  if (wish.count > static_cast<std::uint32_t>(std::min(can.max_srq_wr, can.max_cqe))) {
    return "more Receives are to be shared than the device's queue takes";
  }
  if (wish.anyway) return {};
  if (device.traits().lets_peers_read) return "the device lets a peer read what others have";
  if (device.traits().loses_shared_receives) return "the device loses Receives of the queue";
  if (device.traits().read_sink_is_exposed) return "the sinks of RDMA Reads are exposed there";
  return {};
}

ReceivePool::ReceivePool(Device& device, const SharedReceives& wish)
    : device_(device),
      wish_(wish),
      stride_(stride_of(wish)),
      memory_(new (std::nothrow) std::byte[wish.count * stride_]) {}

Expected<std::unique_ptr<ReceivePool>, Error> ReceivePool::open(Device& device,
                                                                const SharedReceives& wish) {
  std::unique_ptr<ReceivePool> made(new ReceivePool(device, wish));
  if (auto opened = made->open(); !opened) return Unexpected<Error>(opened.error());
  const std::lock_guard lock(pools().mutex);
  pools().all.insert(made.get());
  return made;
}

Expected<void, Error> ReceivePool::open() {
  const auto failed = [](std::string_view operation) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, operation});
  };
  if (!memory_) return Unexpected<Error>(Error{Errc::kNoResources, ENOMEM, kOpeningQueue});
  domain_.reset(ibv_alloc_pd(&device_.context()));
  if (!domain_) return failed(kOpeningQueue);
  region_.reset(ibv_reg_mr(domain_.get(), memory_.get(), wish_.count * stride_,
                           static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE)));
  if (!region_) return failed(kRegisteringMemory);
  // As many as there are buffers, so that no peer can make it overflow.
  completions_.reset(ibv_create_cq(&device_.context(), static_cast<int>(wish_.count),
                                   static_cast<CompletionOwner*>(this), &device_.completions(), 0));
  if (!completions_) return failed(kOpeningQueue);
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = wish_.count;
  attributes.attr.max_sge = 1;
  queue_.reset(ibv_create_srq(domain_.get(), &attributes));
  if (!queue_) return failed(kOpeningQueue);
  std::vector<std::uint32_t> all(wish_.count);
  for (std::uint32_t i = 0; i < wish_.count; ++i) all[i] = i;
  if (!give_back(all)) return failed(kOpeningQueue);
  return {};
}

ReceivePool::~ReceivePool() {
  if (!born_.elsewhere()) {  // the lock may be held for ever in a child
    const std::lock_guard lock(pools().mutex);
    pools().all.erase(this);
  }
  if (armed_) device_.count_disarmed();
}

void ReceivePool::add(const ibv_qp& queue_pair, PooledReceiver& receiver) {
  receivers_[queue_pair.qp_num] = &receiver;
}

void ReceivePool::remove(const ibv_qp& queue_pair) noexcept {
  receivers_.erase(queue_pair.qp_num);
}

bool ReceivePool::give_back(std::span<const std::uint32_t> numbers) {
  if (numbers.empty() || born_.elsewhere()) return true;
  chain_.resize(numbers.size());
  slices_.resize(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    slices_[i] = {reinterpret_cast<std::uintptr_t>(message(numbers[i])), wish_.size, region_->lkey};
    chain_[i] = {};
    chain_[i].wr_id = numbers[i];
    chain_[i].next = i + 1 < numbers.size() ? &chain_[i + 1] : nullptr;
    chain_[i].sg_list = &slices_[i];
    chain_[i].num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(queue_.get(), chain_.data(), &bad) == 0 && bad == nullptr;
}

bool ReceivePool::collect() {
  constexpr int kAtOnce = 32;
  std::array<ibv_wc, kAtOnce> completions;
  bool found = false;
  for (std::size_t taken = 0; taken < wish_.count;) {
    const int count = ibv_poll_cq(completions_.get(), kAtOnce, completions.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      const auto number = static_cast<std::uint32_t>(completion.wr_id);
      const auto receiver = receivers_.find(completion.qp_num);
      if (receiver != receivers_.end()) {
        receiver->second->take_pooled(number, completion);
      } else {  // of a connection that is over
        (void)give_back({&number, 1});
      }
    }
    found = found || count > 0;
    if (count < kAtOnce) return found;
    taken += kAtOnce;
  }
  device_.wake();  // the device does not tell again of what is left
  return found;
}

bool ReceivePool::arm() {
  if (armed_) return false;
  armed_ = ibv_req_notify_cq(completions_.get(), 0) == 0;
  if (armed_) device_.count_armed();
  return collect();
}

void ReceivePool::handle_completion_event() noexcept {
  if (armed_) device_.count_disarmed();
  armed_ = false;
}

// --- A connection's share ----------------------------------------------------------------------

ReceiveShare::~ReceiveShare() {
  std::erase(held_, kNone);
  (void)pool_.give_back(held_);
}

std::optional<std::size_t> ReceiveShare::post(std::span<const std::uint16_t> numbers,
                                              std::uint32_t size) {
  for (const std::uint16_t number : numbers) {
    if (held_.size() <= number) held_.resize(std::size_t{number} + 1, kNone);
    rights_.push({number, size});
  }
  return release(numbers);
}

std::optional<std::size_t> ReceiveShare::release(std::span<const std::uint16_t> numbers) {
  returned_.clear();
  for (const std::uint16_t number : numbers) {
    if (number >= held_.size() || held_[number] == kNone) continue;
    returned_.push_back(std::exchange(held_[number], kNone));
  }
  if (!pool_.give_back(returned_)) return std::nullopt;
  return returned_.empty() ? 0 : 1;
}

std::optional<Completion> ReceiveShare::take(std::uint32_t buffer, std::uint32_t size) {
  if (rights_.empty() || size > rights_.front().size) {
    (void)pool_.give_back({&buffer, 1});
    return std::nullopt;
  }
  const std::uint16_t number = rights_.pop().number;
  held_[number] = buffer;
  Completion completion{.id = number, .size = size};
  completion.message = pool_.message(buffer);
  return completion;
}

}  // namespace rpcrdma::rdma::verbs
