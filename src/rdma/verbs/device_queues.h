// The objects of one connection at its device: a protection domain, a completion queue, a queue
// pair.
#ifndef RPCRDMA_RDMA_VERBS_DEVICE_QUEUES_H_
#define RPCRDMA_RDMA_VERBS_DEVICE_QUEUES_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "posix/reactor.h"
#include "posix/yielding.h"
#include "rdma/verbs/completion_owner.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/fork_guard.h"
#include "rdma/verbs/options.h"
#include "rdma/verbs/queue_events.h"
#include "rdma/verbs/receive_pool.h"
#include "rdma/verbs/send_queue.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

class DeviceQueues {
 public:
  // They outlive it.
  DeviceQueues(posix::Reactor& reactor, NotedEvents& noted, QueueEvents::Owner& owner,
               Counters& counters)
      : counters_(counters), events_(reactor, noted, owner) {}
  // Does not destroy the queue pair, which is the identifier's: destroy() does.
  ~DeviceQueues() = default;
  DeviceQueues(const DeviceQueues&) = delete;
  DeviceQueues& operator=(const DeviceQueues&) = delete;

  // Makes the queue pair of `id`. `owner` handles events of completions, and disarms. With a pool
  // the queue pair takes its Receives from it, and the pool passes each message to `receiver`;
  // null: it has its own.
  Expected<void, Error> open(rdma_cm_id& id, Device& device, const Options& options,
                             CompletionOwner& owner, ReceivePool* pool, PooledReceiver& receiver);
  // Ends what there is, also after open() failed; nothing in a child of the process.
  void destroy() noexcept;

  // Preconditions of these: open() was called, and has found a device.
  Device& device() const noexcept { return *device_; }
  ReceivePool* pool() const noexcept { return pool_; }
  ibv_pd& domain() const noexcept { return pool_ != nullptr ? pool_->domain() : *own_domain_; }
  ibv_qp* queue_pair() const noexcept { return id_ != nullptr ? id_->qp : nullptr; }
  const SendQueue::Limits& limits() const noexcept { return limits_; }
  const QueueEvents& events() const noexcept { return events_; }

  // Asks the device for an event at the next completion. False: it was asked already. Earlier
  // completions make no event, so that the caller has to poll() afterwards.
  bool arm();
  void disarm() noexcept;
  bool is_armed() const noexcept { return armed_; }

  // Calls `take` for each completion that has come; those of the pool go to its receivers. True if
  // there were any.
  template <class Take>
  bool poll(Take take);

  // Moves the queue pair to its error state: it takes no more messages, and flushes its work.
  bool stop() noexcept;
  // Stops the queue pair. A shared Receive that the device has taken for it comes back by a
  // completion, or is lost with the queue pair: returns true if that has to be waited for.
  // `was_answered`: something can have come.
  bool stop_for_last_receive(bool was_answered);
  void wait_for_last_receive(posix::Yielding& yielding, std::chrono::milliseconds time_max);
  // Shortens the time that a peer waits when it finds no Receive.
  void shorten_wait_for_receives() noexcept;

 private:
  bool create_queue_pair(const Options& options);

  Counters& counters_;
  BornHere born_;
  rdma_cm_id* id_ = nullptr;
  Device* device_ = nullptr;
  ReceivePool* pool_ = nullptr;
  Owned<ibv_pd, ibv_dealloc_pd> own_domain_;   // null with pool_, whose it has then
  Owned<ibv_cq, ibv_destroy_cq> completions_;  // with pool_ not of Receives
  SendQueue::Limits limits_{};
  bool armed_ = false;
  QueueEvents events_;
};

template <class Take>
bool DeviceQueues::poll(Take take) {
  if (!completions_ || born_.elsewhere()) return false;  // they are for the parent
  constexpr int kAtOnce = 32;
  std::array<ibv_wc, kAtOnce> completions;
  bool found = false;
  for (;;) {
    const int count = ibv_poll_cq(completions_.get(), kAtOnce, completions.data());
    for (int i = 0; i < count; ++i) take(completions[static_cast<std::size_t>(i)]);
    found = found || count > 0;
    if (count < kAtOnce) break;
  }
  return (pool_ != nullptr && pool_->collect()) || found;
}

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_DEVICE_QUEUES_H_
