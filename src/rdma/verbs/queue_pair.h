// One connection: a queue pair of the device, its completion queue and protection domain, and its
// identifier at the connection manager.
//
// Few doorbells and completions: a batch is one call to the device for Sends, Writes, Reads and
// invalidations, and one for Receives. Windows are bound in front of the next work that leaves.
// Only the last work of a batch that somebody waits for asks for a completion, which tells of all
// before it; RDMA Reads ask for their own.
#ifndef RPCRDMA_RDMA_VERBS_QUEUE_PAIR_H_
#define RPCRDMA_RDMA_VERBS_QUEUE_PAIR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ring.h"
#include "rdma/verbs/bounce.h"
#include "rdma/verbs/listener.h"
#include "rdma/verbs/memory.h"
#include "rdma/verbs/queue_events.h"
#include "rdma/verbs/receive_pool.h"
#include "rdma/verbs/shard.h"
#include "rdma/verbs/work_ring.h"

namespace rpcrdma::rdma::verbs {

class QueuePair final : public rdma::QueuePair,
                        public CompletionOwner,
                        private PooledReceiver,
                        private CmTarget,
                        private posix::Watched {
 public:
  // The active side. A peer that cannot be reached is told by an event, not here; kUnsupported when
  // the way to it does not go over an RDMA device.
  static Expected<std::unique_ptr<QueuePair>, Error> connect(Shard& shard,
                                                             const posix::Address& address,
                                                             Bytes private_data);
  // The passive side. The peer hears of it in the next progress(), when Receives are posted.
  static Expected<std::unique_ptr<QueuePair>, Error> accept(Shard& shard, Incoming& incoming,
                                                            Bytes private_data);
  // With copied Sends under way it waits for them, 10 ms at the most.
  ~QueuePair() override;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Expected<RegionId, Error> attach(MutableBytes memory) override;
  Expected<RegionId, Error> attach_read_only(Bytes memory) override;
  void detach(RegionId region) override { memory_->detach(region); }
  Bytes peer_private_data() const noexcept override { return peer_private_data_; }
  std::string_view peer_address() const noexcept override { return peer_address_; }
  Expected<void, Error> post(std::span<work::Request> batch) override;
  Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                      std::span<const std::uint16_t> numbers) override;
  void release_receives(std::span<const std::uint16_t> numbers) override;
  std::size_t poll(std::span<Completion> out) override;
  std::optional<LinkEvent> poll_link() override;
  Error cause() const noexcept override { return cause_; }
  Error exposure_failure() const noexcept override;
  void disconnect() noexcept override;
  Counters counters() const noexcept override;

  // Moves on what waits for no event; arms the completion queue.
  void progress();
  // Completions or events that are there to be polled.
  bool has_news() const noexcept { return !ready_.empty() || !events_.empty(); }
  // Looks for completions; true if there are any.
  bool look();
  void handle_completion_event() noexcept override { disarm(); }

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
  enum class Kind : std::uint8_t { kSend, kWrite, kRead, kBind, kInvalidate, kMarker };
  struct SendWork {
    std::uint64_t id = 0;
    Kind kind = Kind::kSend;
    bool is_wanted = false;  // the user waits for its completion
    bool is_copied = false;  // the message went by the queue, or from our own buffer
    bool own_completion = false;
    bool done = false;
    SteeringTag tag{};       // kBind, kInvalidate
    std::uint32_t size = 0;  // bytes, of what moved
    Bounce::Place bounce{};  // of a Send with too many slices
    MemoryRegion sink{};     // of a Read whose sink had to be exposed
  };
  struct ReceiveWork {
    std::uint64_t id = 0;
    bool own_completion = true;
    bool done = false;
  };
  // A completion's number says of which queue it is.
  static constexpr std::uint64_t kOfReceive = std::uint64_t{1} << 63U;

  QueuePair(Shard& shard, CmId id, std::string peer_address, Bytes private_data);
  enum class Side : std::uint8_t { kActive, kPassive };
  Expected<void, Error> open_queue(Side side);
  Expected<void, Error> open_receives(Side side);
  bool create_queue_pair(const Device& device);
  void handle_cm(CmEvent& event) override;
  void handle_ready(std::uint32_t /*events*/) override {}
  void handle_deadline() override;
  void begin_connecting();
  void answer();
  void opened(const CmEvent& event);
  void notice_first_message();
  bool is_setting_up() const noexcept;
  void arm();
  void disarm() noexcept;
  void set_up_failed(rdma_cm_event_type event, int code);

  void collect();
  void take(const ibv_wc& completion);
  void take_send(std::uint64_t number, const ibv_wc& completion);
  void take_receive(std::uint64_t number, const ibv_wc& completion);
  void take_pooled(std::uint32_t number, const ibv_wc& completion) override;
  Completion received(const ibv_wc& completion);
  void finish(SendWork& work, Status status, bool is_certain);
  void note_failure(const ibv_wc& completion);
  void give_up_soon();
  void end(const Error& cause);
  void end(const Error& cause, LinkEvent event);
  bool stop_receiving();
  bool begin_leaving();
  void finish_end();
  void destroy_queue();
  void wait_for_last_receive();
  void wait_for_copies();

  bool takes_work() const noexcept;
  Expected<void, Error> check(std::span<const work::Request> batch);
  std::string_view check_slices(std::span<const Slice> slices, bool to_write,
                                std::size_t max) const;
  std::string_view check_work(const work::Request& request) const;
  bool make_room(std::size_t receives, std::size_t others);
  std::size_t receives_posted() const noexcept {
    return share_ ? share_->rights() : receives_.size();
  }
  bool build(work::Request& request);
  bool build_send(work::Request& request, const Send& send);
  bool build_read(const work::Request& request, const Read& read);
  bool build_write(const work::Request& request, const Write& write);
  void expose(const work::Request& request, const Expose& work);
  void revoke(const work::Request& request, const Revoke& work);
  bool add_receive(const work::Request& request, const Receive& receive);
  std::optional<std::size_t> gather(std::span<const Slice> slices, bool to_write);
  ibv_send_wr& add_send(SendWork work);
  void begin_batch(std::size_t slices);
  void end_batch();
  void ask_for_completion();
  void broke(int code);
  void flush_binds();
  void complete_now(const Completion& completion);
  void give_up(std::span<const work::Request> rest);

  Shard& shard_;
  BornHere born_;
  CmId id_;
  Device* device_ = nullptr;
  std::string peer_address_;
  std::vector<std::byte> private_data_;  // ours, until it is sent
  std::vector<std::byte> peer_private_data_;
  Owned<ibv_pd, ibv_dealloc_pd> own_domain_;   // null with share_, whose it has then
  Owned<ibv_cq, ibv_destroy_cq> completions_;  // with share_ not of Receives
  std::unique_ptr<ReceiveShare> share_;        // null: Receives of its own
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Bounce> bounce_;
  Capabilities capabilities_{};
  std::uint32_t inline_max_ = 0;  // bytes
  std::uint32_t send_slices_max_ = 0;
  std::uint8_t responder_resources_ = 0, initiator_depth_ = 0;
  State state_;
  bool armed_ = false;
  bool heard_ = false;    // a message has come
  bool broken_ = false;   // work failed; the end follows
  bool flushed_ = false;  // the device gave work up; the reason may follow
  QueueEvents device_events_;
  LinkEvent ending_{};    // what the user is told at the end
  bool refuses_ = false;  // it ends before it was open
  Ring<LinkEvent> events_{4};
  Error cause_{Errc::kClosed, 0, ""};
  int exposure_failure_ = 0;  // an errno

  WorkRing<SendWork> sends_;
  WorkRing<ReceiveWork> receives_;
  Ring<Completion> ready_;
  std::uint32_t since_signal_ = 0;  // work since the last that asked for a completion
  std::uint32_t copies_under_way_ = 0;
  std::vector<std::uint64_t> unrevoked_;  // ids of Revokes that were given up; told at the end

  // The batch that is being posted; kept, so that nothing is allocated in steady state.
  std::vector<ibv_send_wr> send_chain_;
  std::vector<ibv_recv_wr> receive_chain_;
  std::vector<ibv_sge> slices_;
  std::optional<std::size_t> last_wanted_;  // of send_chain_: somebody waits for it
  std::vector<SteeringTag> unbound_;        // whose binding is not with the device yet, with:
  std::vector<ibv_send_wr> binds_;
  Counters counters_;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_QUEUE_PAIR_H_
