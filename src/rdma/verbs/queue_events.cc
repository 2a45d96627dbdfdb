#include "rdma/verbs/queue_events.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace rpcrdma::rdma::verbs {
namespace {

struct AllWatched {
  std::mutex mutex;
  std::unordered_map<const ibv_qp*, QueueEvents*> by_queue;  // guarded by mutex
};

// The queue pairs of the process. They are never destroyed: static clients may go after anything
// that is.
AllWatched& all_watched() {
  static AllWatched& all = *new AllWatched;
  return all;
}

}  // namespace

void QueueEvents::watch(const ibv_qp& queue) {
  AllWatched& all = all_watched();
  const std::lock_guard guard(all.mutex);
  queue_ = &queue;
  all.by_queue[queue_] = this;
}

void QueueEvents::forget() noexcept {
  if (queue_ == nullptr || born_.elsewhere()) return;  // the lock may be held for ever in a child
  AllWatched& all = all_watched();
  const std::lock_guard guard(all.mutex);
  all.by_queue.erase(queue_);
  noted_.remove(*this);
  queue_ = nullptr;
}

void QueueEvents::note(Fault fault) noexcept {
  if (fault == Fault::kNone) {
    last_receive_ = true;
  } else {
    fault_ = std::max(fault_.load(), fault);  // under the lock
  }
  noted_.add(*this);
  reactor_.wake();
}

// The lock is held to the end: forget() comes before the destruction, which so waits for this.
void QueueEvents::deliver(const ibv_async_event& event, const ibv_context& device) noexcept {
  AllWatched& all = all_watched();
  const std::lock_guard guard(all.mutex);
  const auto note_with = [&](Fault fault) {
    const auto found = all.by_queue.find(event.element.qp);
    if (found != all.by_queue.end()) found->second->note(fault);
  };
  const auto note_where = [&all](Fault fault, const auto& concerns) {
    for (const auto& [queue, receiver] : all.by_queue) {
      if (concerns(*queue)) receiver->note(fault);
    }
  };
  const ibv_event_type type = event.event_type;
  if (type == IBV_EVENT_QP_LAST_WQE_REACHED) {
    note_with(Fault::kNone);
  } else if (type == IBV_EVENT_QP_FATAL) {
    note_with(Fault::kOwn);
  } else if (type == IBV_EVENT_QP_REQ_ERR || type == IBV_EVENT_QP_ACCESS_ERR) {
    note_with(Fault::kPeers);
  } else if (type == IBV_EVENT_SRQ_ERR) {
    note_where(Fault::kQueue,
               [&event](const ibv_qp& each) { return each.srq == event.element.srq; });
  } else if (type == IBV_EVENT_CQ_ERR) {
    note_where(Fault::kQueue, [&event](const ibv_qp& each) {
      return each.send_cq == event.element.cq || each.recv_cq == event.element.cq;
    });
  } else if (type == IBV_EVENT_DEVICE_FATAL) {
    note_where(Fault::kDevice, [&device](const ibv_qp& each) { return each.context == &device; });
  }
}

void NotedEvents::add(QueueEvents& events) noexcept {
  if (!std::exchange(events.is_noted_, true)) events.next_noted_ = std::exchange(first_, &events);
  has_any_ = true;
}

void NotedEvents::remove(QueueEvents& events) noexcept {
  if (!std::exchange(events.is_noted_, false)) return;
  QueueEvents** link = &first_;
  while (*link != &events) link = &(*link)->next_noted_;
  *link = events.next_noted_;
}

void NotedEvents::pass_on() noexcept {
  if (!has_any_.exchange(false)) return;
  const std::lock_guard guard(all_watched().mutex);
  while (first_ != nullptr) {
    QueueEvents& events = *std::exchange(first_, first_->next_noted_);
    events.is_noted_ = false;
    events.owner_.handle_queue_event();
  }
}

}  // namespace rpcrdma::rdma::verbs
