// An RDMA device as one provider uses it: its features, and the channel of its completion events.
#ifndef RPCRDMA_RDMA_VERBS_DEVICE_H_
#define RPCRDMA_RDMA_VERBS_DEVICE_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "posix/reactor.h"
#include "rdma/verbs/completion_owner.h"
#include "rdma/verbs/fork_guard.h"
#include "rdma/verbs/options.h"
#include "rdma/verbs/read_budget.h"
#include "rdma/verbs/receive_pool.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

// The consequences of the device's features and of the wish.
struct Traits {
  Registration registration;  // kWindows, kPerCall or kCache
  bool is_iwarp;
  bool send_with_invalidate;
  bool reports_invalidated_handle;
  // iWARP: a Read's response is placed by a steering tag, so that its sink needs a remote right
  // while the Read is on its way. Not with siw, which looks at the local right only.
  bool read_sink_is_exposed;
  // libsiw prints its asynchronous events to the standard output; they are left unread. The
  // connection manager tells the end of a connection as well.
  bool prints_events;
  // rxe (seen in Linux 6.1): a window reaches all of the registration that it is bound to, so it
  // gets one of its own; and invalidating one that the peer has just invalidated is a null pointer
  // in the kernel, so windows are given up instead.
  bool windows_want_care;
  unsigned invalidated_flags;  // of ibv_wc: the peer's Send invalidated a handle
  bool wants_a_slice;    // libsiw refuses Receives and Reads of no slices, but takes an empty one
  bool lets_peers_read;  // siw: what is registered, whatever its rights
  // siw (seen in Linux 6.1 and 6.12): the answer to an RDMA Read of 3 to 32 bytes that lie in two
  // pages has other bytes, with a CRC that fits them.
  bool garbles_short_reads;
  // rxe (seen in Linux 6.12): a shared Receive whose message came by half when its connection ended
  // does not come back.
  bool loses_shared_receives;
  bool inlines_invalidation;   // not siw, where such a Send breaks the connection without a word
  std::uint32_t inline_limit;  // bytes; libsiw refuses more than it agreed to
};
Traits traits_of(const ibv_context& context, const ibv_device_attr& attributes, Registration wish);

class Device {
 public:
  // `context` is the connection manager's; the device keeps it open.
  static Expected<std::unique_ptr<Device>, Error> open(ibv_context& context, Registration wish,
                                                       posix::Reactor& reactor);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_context& context() const noexcept { return context_; }
  const ibv_device_attr& attributes() const noexcept { return attributes_; }
  const Traits& traits() const noexcept { return traits_; }
  // Returns the budget that all connections of the process over the device share.
  ReadBudget& read_budget() const noexcept { return *read_budget_; }
  ibv_comp_channel& completions() const noexcept { return *channel_; }
  // Returns the pool of Receives that accepted connections share, made on the first call; null:
  // each connection has its own, also if making the pool failed once, or the pool has failed.
  Expected<ReceivePool*, Error> shared_receives(const SharedReceives& wish);
  // Returns the pool if it exists; null if it does not.
  ReceivePool* pool() const noexcept { return pool_.get(); }
  // Count the completion queues that are armed: so many events may be pending at once.
  void count_armed() noexcept { ++armed_; }
  void count_disarmed() noexcept { --armed_; }
  bool is_lost() const noexcept { return is_lost_; }  // it will never work again
  void note_loss() noexcept { is_lost_ = true; }
  // Takes the asynchronous events that are there, for callers that cannot wait for the reactor.
  void take_events() { async_events_.handle_ready(0); }
  void wake() noexcept { reactor_.wake(); }
  // Returns whether the device reports that a queue pair has no more shared Receives: true until a
  // connection waited for the report in vain, and none had come before.
  bool tells_last_receive() const noexcept { return tells_last_receive_ && !traits_.prints_events; }
  void note_silence() noexcept { tells_last_receive_ = has_told_last_receive_; }

 private:
  // Completion events: marks each queue concerned as to be armed again.
  struct CompletionEvents final : posix::Watched {
    explicit CompletionEvents(Device& owner) : device(owner) {}
    void handle_ready(std::uint32_t events) override;
    void handle_deadline() override {}
    Device& device;
  };
  // Asynchronous events. All users of the device in the process share the descriptor, so an event
  // may be about another thread's queue pair, or about one that is not ours.
  struct AsyncEvents final : posix::Watched {
    explicit AsyncEvents(Device& owner) : device(owner) {}
    void handle_ready(std::uint32_t events) override;
    void handle_deadline() override {}
    Device& device;
  };
  Device(ibv_context& context, posix::Reactor& reactor)
      : context_(context), all_devices_(rdma_get_devices(nullptr)), reactor_(reactor) {}

  ibv_context& context_;
  Owned<ibv_context*, rdma_free_devices> all_devices_;  // as long as this is held, they stay open
  posix::Reactor& reactor_;
  ibv_device_attr attributes_{};
  ReadBudget* read_budget_ = nullptr;
  Traits traits_{};
  Owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
  std::size_t armed_ = 0;
  CompletionEvents completion_events_{*this};
  AsyncEvents async_events_{*this};
  std::unique_ptr<ReceivePool> failed_pool_, pool_;  // die before the channel
  bool is_lost_ = false;
  bool tells_last_receive_ = true, has_told_last_receive_ = false;
  bool has_no_pool_ = false;  // it could not be made
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_DEVICE_H_
