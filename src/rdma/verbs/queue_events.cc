#include "rdma/verbs/queue_events.h"

#include <mutex>
#include <unordered_map>

namespace rpcrdma::rdma::verbs {
namespace {

std::mutex watched_lock;
std::unordered_map<const ibv_qp*, QueueEvents*> watched;  // under watched_lock

}  // namespace

void QueueEvents::watch(const ibv_qp& queue) {
  const std::lock_guard guard(watched_lock);
  queue_ = &queue;
  watched[queue_] = this;
}

void QueueEvents::forget() noexcept {
  if (queue_ == nullptr || born_.elsewhere()) return;  // the lock may be held for ever in a child
  const std::lock_guard guard(watched_lock);
  watched.erase(queue_);
  queue_ = nullptr;
}

// The lock is held to the end: forget() comes before the destruction, which so waits for this.
void QueueEvents::deliver(const ibv_qp& queue, ibv_event_type event) noexcept {
  const std::lock_guard guard(watched_lock);
  const auto found = watched.find(&queue);
  if (found == watched.end()) return;
  QueueEvents& receiver = *found->second;
  if (event == IBV_EVENT_QP_LAST_WQE_REACHED) {
    receiver.last_receive_ = true;
  } else {
    receiver.fault_ = event == IBV_EVENT_QP_FATAL ? Fault::kOwn : Fault::kPeers;
  }
  receiver.told_ = true;
  receiver.reactor_.wake();
}

}  // namespace rpcrdma::rdma::verbs
