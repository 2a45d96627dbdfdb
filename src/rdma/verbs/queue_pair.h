// One connection: its state from the set-up to the end, over the device's queues (DeviceQueues),
// the work in them (DeviceWork) and the connection manager (CmConnection).
#ifndef RPCRDMA_RDMA_VERBS_QUEUE_PAIR_H_
#define RPCRDMA_RDMA_VERBS_QUEUE_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rdma/news.h"
#include "rdma/verbs/cm_connection.h"
#include "rdma/verbs/device_queues.h"
#include "rdma/verbs/device_work.h"
#include "rdma/verbs/listener.h"
#include "rdma/verbs/receive_pool.h"
#include "rdma/verbs/shard.h"

namespace rpcrdma::rdma::verbs {

class QueuePair final : public rdma::QueuePair,
                        private CompletionOwner,
                        private PooledReceiver,
                        private CmTarget,
                        private posix::Watched {
 public:
  // Opens the active side. If the peer cannot be reached, an event reports it later, not this
  // function; kUnsupported if the way to the peer does not go over an RDMA device.
  static Expected<std::unique_ptr<QueuePair>, Error> connect(Shard& shard,
                                                             const posix::Address& address,
                                                             Bytes private_data);
  // Opens the passive side. The next progress() answers the peer, when Receives are posted.
  static Expected<std::unique_ptr<QueuePair>, Error> accept(Shard& shard, Incoming& incoming,
                                                            Bytes private_data);
  // Waits for copied Sends that are under way, 10 ms at the most.
  ~QueuePair() override;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Expected<RegionId, Error> attach(MutableBytes memory) override {
    return work_->memory.attach(memory, memory.data());
  }
  Expected<RegionId, Error> attach_read_only(Bytes memory) override {
    return work_->memory.attach(memory, nullptr);
  }
  void detach(RegionId region) override { work_->memory.detach(region); }
  Bytes peer_private_data() const noexcept override { return cm_.peer_private_data(); }
  std::string_view peer_address() const noexcept override { return cm_.peer_address(); }
  Expected<void, Error> post(std::span<work::Request> batch) override;
  Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                      std::span<const std::uint16_t> numbers) override;
  void release_receives(std::span<const std::uint16_t> numbers) override;
  std::size_t poll(std::span<Completion> out) override;
  std::optional<LinkEvent> poll_link() override;
  bool set_ready_listener(NewsListener& listener) noexcept override {
    news.set_listener(listener);
    return true;
  }
  Error cause() const noexcept override { return cause_; }
  Error exposure_failure() const noexcept override;
  void disconnect() noexcept override;
  Counters counters() const noexcept override;

  // Moves on what waits for no event; arms the completion queue. Needed after an event or a call of
  // another function alone: that puts this into Shard::to_visit.
  void progress();
  class Visit final : public Listing<QueuePair>, public QueueEvents::Owner {
   public:
    using Listing<QueuePair>::Listing;
    void handle_queue_event() noexcept override { add(); }
  };
  Visit visit;
  News<QueuePair> news;
  // Completions or events that are there to be polled.
  bool has_news() const noexcept { return !work_->ready.empty() || news.has_event(); }
  // Looks for completions; true if there are any.
  bool look();

 private:
  enum class State : std::uint8_t {
    kResolving,   // waits for the way to the peer; the connection manager moves it on
    kConnecting,  // waits for the peer's answer; it, or the deadline, moves it on
    kAccepting,   // has not answered yet; progress() does
    kAnswered,    // waits for the peer's confirmation, or its first message
    kOpen,        // carries work
    kDraining,    // over for the user, waits for copied Sends; a completion or the deadline ends it
    kLeaving,     // over, waits for the shared Receives that it took; an event or the deadline
    kDown,        // over; the queue pair is gone
  };

  QueuePair(Shard& shard, std::string peer_address, Bytes private_data);
  enum class Side : std::uint8_t { kActive, kPassive };
  Expected<void, Error> open(Side side);
  void move_on();
  void handle_completion_event() noexcept override;
  void handle_cm(CmEvent& event) override;
  void handle_deadline() override;
  void answer();
  void opened(const CmEvent& event);
  void notice_first_message();

  void collect();
  void take_pooled(std::uint32_t number, const ibv_wc& completion) override;
  void note_failure(const ibv_wc& completion);
  void fail(const Error& cause);
  void give_up_soon();
  void end(const Error& cause, std::optional<LinkEvent> event = std::nullopt);
  void finish_end();

  bool make_room(std::size_t receives, std::size_t others);
  void note_posted(std::optional<int> failure);

  // The cause of the end is known: no later failure replaces it.
  bool is_decided() const noexcept {
    return broken_ || state_ == State::kDown || state_ == State::kLeaving;
  }
  bool takes_work() const noexcept {
    return !is_decided() && state_ != State::kDraining && !born_.elsewhere();
  }

  Shard& shard_;
  BornHere born_;
  State state_ = State::kResolving;
  bool broken_ = false;   // work failed; the end follows
  bool flushed_ = false;  // the device gave work up; the reason may follow
  LinkEvent ending_{};    // the event that is reported at the end
  bool refuses_ = false;  // it ends before it was open
  Error cause_{Errc::kClosed, 0, ""};
  Capabilities capabilities_{};
  Counters counters_;
  // The order matters, since each needs those before it until it is destroyed.
  CmConnection cm_;
  DeviceQueues queues_;
  std::unique_ptr<DeviceWork> work_;  // null until open() has succeeded
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_QUEUE_PAIR_H_
