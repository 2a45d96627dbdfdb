// Notes the asynchronous events of a device that concern one queue pair, beside its completions.
#ifndef RPCRDMA_RDMA_VERBS_QUEUE_EVENTS_H_
#define RPCRDMA_RDMA_VERBS_QUEUE_EVENTS_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "posix/reactor.h"
#include "rdma/verbs/fork_guard.h"

namespace rpcrdma::rdma::verbs {

class NotedEvents;

// All users of a device in the process share the descriptor of its events. The thread that reads an
// event notes it here and wakes the thread of the connection.
class QueueEvents {
 public:
  // The later ones concern more.
  enum class Fault : std::uint8_t {
    kNone,
    kPeers,  // the peer broke a rule
    kOwn,    // the queue pair failed itself
    kQueue,  // a queue failed that it uses, perhaps together with others
    kDevice,
  };

  // The user of the queue pair.
  class Owner {
   public:
    // An event was noted. Called by NotedEvents::pass_on(), under a lock: it only notes that.
    virtual void handle_queue_event() noexcept = 0;

   protected:
    ~Owner() = default;
  };

  // All outlive it.
  QueueEvents(posix::Reactor& reactor, NotedEvents& noted, Owner& owner)
      : reactor_(reactor), noted_(noted), owner_(owner) {}
  ~QueueEvents() { forget(); }
  QueueEvents(const QueueEvents&) = delete;
  QueueEvents& operator=(const QueueEvents&) = delete;

  // Notes events about `queue` here, until forget().
  void watch(const ibv_qp& queue);
  void forget() noexcept;
  // Notes an event of this device with each object that watches a queue pair concerned, on whatever
  // thread that one is: one thread alone reads an event. From any thread.
  static void deliver(const ibv_async_event& event, const ibv_context& device) noexcept;

  Fault fault() const noexcept { return fault_; }
  // The device holds no shared Receive for this queue pair any more, and will take no other.
  bool has_last_receive() const noexcept { return last_receive_; }

 private:
  friend NotedEvents;
  void note(Fault fault) noexcept;

  posix::Reactor& reactor_;
  NotedEvents& noted_;
  Owner& owner_;
  bool is_noted_ = false;              // this and the next one: under the lock
  QueueEvents* next_noted_ = nullptr;  // of the list of noted_
  BornHere born_;
  const ibv_qp* queue_ = nullptr;  // that is watched
  std::atomic<Fault> fault_{Fault::kNone};
  std::atomic<bool> last_receive_{false};
};

// The queue pairs of one thread for which events came since it looked last: a peer that makes
// events again and again has its own connection visited, and not all those of the thread.
class NotedEvents {
 public:
  // Notifies the owners. Called on the thread of the connections.
  void pass_on() noexcept;

 private:
  friend QueueEvents;
  void add(QueueEvents& events) noexcept;
  void remove(QueueEvents& events) noexcept;

  std::atomic<bool> has_any_{false};
  QueueEvents* first_ = nullptr;  // under the lock
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_QUEUE_EVENTS_H_
