// One end of a simulated connection.
//
// Work goes through these steps, each an event of the World at a time of its own:
//   post      checked and taken; memory that will be written to is filled with kPoison
//   depart    (Send, Write, Read) its memory is read, the message leaves; in order of posting
//   arrive    at the peer; in order of departure. Writes are checked here but stay invisible until
//             the next Send, Revoke or Read Request (or, now and then, become visible at once)
//   complete  (Sends and Writes: in order of posting) the completion can be polled
#ifndef RPCRDMA_RDMA_SIM_QUEUE_PAIR_H_
#define RPCRDMA_RDMA_SIM_QUEUE_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rdma/sim/domain.h"
#include "rdma/sim/world.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::sim {

class QueuePair final : public rdma::QueuePair {
 public:
  QueuePair(World& world, std::string peer_address, bool remote_invalidation);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair() override;

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Expected<RegionId, Error> attach(MutableBytes memory) override;
  Expected<RegionId, Error> attach_read_only(Bytes memory) override;
  void detach(RegionId region) override;
  Bytes peer_private_data() const noexcept override { return peer_private_data_; }
  std::string_view peer_address() const noexcept override { return peer_address_; }
  Expected<void, Error> post(std::span<work::Request> batch) override;
  Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                      std::span<const std::uint16_t> numbers) override;
  void release_receives(std::span<const std::uint16_t> numbers) override;
  std::size_t poll(std::span<Completion> out) override;
  std::optional<LinkEvent> poll_link() override;
  bool set_ready_listener(NewsListener& listener) noexcept override {
    listener_ = &listener;
    return true;
  }
  Error cause() const noexcept override { return cause_; }
  std::optional<Remote> refused_write() const noexcept override { return refused_write_; }
  // The end comes a little later, as it does with hardware; post() fails from now on.
  void disconnect() noexcept override;
  Counters counters() const noexcept override { return counters_; }

  // --- For the parts of the simulator.

  World::QueuePairId id() const noexcept { return id_; }
  World::QueuePairId peer_id() const noexcept { return peer_; }
  bool is_connected() const noexcept { return state_ == State::kConnected; }
  // Something can be polled: what would wake the owner on a real machine.
  bool has_news() const noexcept { return !completions_.empty() || !link_events_.empty(); }

  void start_setup_timer();
  // Accepts on the passive side, and tells the initiator.
  void accept(World::QueuePairId initiator, std::vector<std::byte> peer_private_data,
              std::vector<std::byte> private_data);
  // Handle the answers to the request, on the active side.
  void handle_accepted(World::QueuePairId acceptor, std::vector<std::byte> private_data);
  void handle_refused(const Error& cause);
  // The connection broke.
  void handle_broken();

 private:
  enum class State : std::uint8_t {
    kConnecting,  // waits for the peer's answer, or (acceptor) its first message
    kConnected,   // until anybody ends it
    kClosing,     // disconnect() was called; its own event ends it
    kClosed,      // for ever
  };
  using Serial = std::uint64_t;  // of work: in order of posting, never used twice

  struct PostedReceive {
    std::uint64_t id;
    std::vector<Slice> into;
    std::uint64_t size;  // bytes that it takes
  };
  // A Send, Write or Read on its way.
  struct Outgoing {
    enum class Kind : std::uint8_t { kSend, kWrite, kRead };
    std::uint64_t id;
    bool signaled;
    Kind kind;
    std::vector<Slice> slices;  // read from; with kRead: written to, just one
    Remote remote{};
    std::optional<SteeringTag> invalidate{};
    bool arrived = false;               // the peer has taken it
    Status failure = Status::kFlushed;  // how it completes when the connection ends first
  };
  struct Local {  // an Expose or a Revoke
    std::uint64_t id;
    bool signaled;
    std::variant<Expose, Revoke> work;
  };
  struct PendingWrite {  // accepted from the peer, but not visible yet
    MutableBytes into;
    std::vector<std::byte> data;
  };

  // The messages on the wire. `serial` is the sender's number of the work, which comes back in
  // answers.
  struct SendMessage {
    Serial serial;
    std::vector<std::byte> data;
    std::optional<SteeringTag> invalidate;
  };
  struct WriteMessage {
    Serial serial;
    std::vector<std::byte> data;
    Remote to;
  };
  struct ReadMessage {
    Serial serial;
    Remote from;
  };
  struct ReadResponse {
    Serial serial;
    std::vector<std::byte> data;
  };
  struct ReadyMessage {};  // the initiator is connected
  struct CloseMessage {};
  struct TerminateMessage {  // the work `serial` was refused; the sender is gone
    Serial serial;
    Status status;
    std::optional<Remote> write;  // where it went, if it was a Write
  };
  using Message = std::variant<SendMessage, WriteMessage, ReadMessage, ReadResponse, ReadyMessage,
                               CloseMessage, TerminateMessage>;

  // Posting.
  std::optional<Error> check(const work::Request& request) const;
  std::optional<Error> check_capacity(std::span<const work::Request> batch) const;
  bool are_readable(std::span<const Slice> slices) const;
  bool are_writable(std::span<const Slice> slices) const;
  Unexpected<Error> refuse_post(const Error& error);
  void take(work::Request& request);
  void copy_and_send(const Send& work);
  void take_outgoing(Outgoing outgoing);
  void take_local(const Local& local);
  void poison(const Slice& slice);
  void give_back(std::uint64_t number);
  bool hold(std::uint64_t number, std::vector<std::byte> data);

  // Outgoing work.
  void depart(Serial serial);
  std::vector<std::byte> gather(std::span<const Slice> slices) const;
  Departure departure_of(const Message& message) const;
  void travel(Message message);
  void handle_taken_by_peer(Serial serial);
  void complete_later(Serial serial);
  void complete(Serial serial);

  // Arrivals.
  void arrive(Message& message);
  void arrive(SendMessage& message);
  void arrive(WriteMessage& message);
  void arrive(ReadMessage& message);
  void arrive(ReadResponse& message);
  void arrive(ReadyMessage& message);
  void arrive(CloseMessage& message);
  void arrive(TerminateMessage& message);
  void respond(const ReadMessage& message);
  void scatter(Bytes data, std::span<const Slice> into);
  void show_writes();
  // Ends the connection because of what the peer did with its work `serial`.
  void terminate(Serial serial, Status status, std::string_view text,
                 std::optional<Remote> write = std::nullopt);

  // Local work.
  void run_local(Serial serial);
  void push(const Completion& completion, bool signaled);
  void push_received(const Completion& completion);
  void tell(LinkEvent event);
  void note_news() noexcept {
    if (listener_ != nullptr) listener_->handle_news();
  }

  // The end.
  void close(const Error& cause, LinkEvent event);
  void flush();
  bool refers_to(RegionId region) const;

  World& world_;
  NewsListener* listener_ = nullptr;
  bool was_full_ = false;  // when something was posted last
  const World::QueuePairId id_;
  World::QueuePairId peer_ = 0;
  const std::string peer_address_;
  const Capabilities capabilities_;
  State state_ = State::kConnecting;
  std::optional<World::EventKey> setup_timer_;
  std::vector<std::byte> peer_private_data_;   // empty before kConnected
  std::vector<std::byte> early_private_data_;  // of an acceptor, until kConnected
  Error cause_{Errc::kClosed, 0, ""};
  std::optional<Remote> refused_write_;
  Domain domain_;
  std::set<SteeringTag> tags_;  // all that were ever given out here

  Serial next_serial_ = 1;
  std::deque<PostedReceive> receives_;
  // With shares_receives, by number. Memory that was given back is poisoned, and stays.
  struct Kept {
    std::vector<std::byte> data;
    bool is_held = false;
  };
  std::map<std::uint64_t, Kept> messages_;
  std::map<Serial, Outgoing> outgoing_;
  std::map<Serial, Local> local_;
  std::uint32_t reads_in_flight_ = 0;  // of outgoing_
  std::vector<PendingWrite> pending_writes_;

  struct Completed {
    Completion completion;
    bool of_receive;
  };
  std::deque<Completed> completions_;  // can be polled
  std::size_t received_unpolled_ = 0;  // of completions_
  std::deque<LinkEvent> link_events_;

  // When the last of each kind is due: what follows is due no earlier.
  Instant last_departure_{}, last_arrival_{}, last_completion_{}, last_response_{}, last_local_{};
  Counters counters_;
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_QUEUE_PAIR_H_
