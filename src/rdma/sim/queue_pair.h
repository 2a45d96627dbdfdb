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
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rdma/sim/domain.h"
#include "rdma/sim/work_queues.h"
#include "rdma/sim/world.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::sim {

// The messages on the wire. `serial` is the sender's number of the work, which comes back in
// answers.
struct SendMessage {
  Serial serial;
  std::vector<std::byte> data;
  std::optional<SteeringTag> invalidate;
  bool is_hostile = false;  // its sender may break rules
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
struct EndMessage {      // the sender is gone
  struct Refusal {
    Serial serial;  // of the refused work
    Status status;
    std::optional<Remote> write;  // where it went, if it was a Write
  };
  std::optional<Refusal> refusal;
};
// A peer that a test has break rules. Sends that find no Receive at it, and its own at its peer,
// are no violations.
struct Hostility {
  bool is_hostile = false;
  bool holds_responses = false;  // to RDMA Reads, until poll() finds this false
  std::vector<ReadMessage> held_reads;

  bool excuses(const SendMessage& message) const noexcept {
    return is_hostile || message.is_hostile;
  }
};
using Message =
    std::variant<SendMessage, WriteMessage, ReadMessage, ReadResponse, ReadyMessage, EndMessage>;

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
  std::optional<LinkEvent> poll_link() override { return news_.poll(); }
  bool set_ready_listener(NewsListener& listener) noexcept override {
    news_.set_listener(listener);
    return true;
  }
  Error cause() const noexcept override { return cause_; }
  std::optional<Remote> refused_write() const noexcept override { return refused_write_; }
  // The end comes a little later, as it does with hardware; post() fails from now on.
  void disconnect() noexcept override;
  Counters counters() const noexcept override {
    Counters counters = counters_;
    counters.attached_bytes = domain_.attached_bytes();
    return counters;
  }

  // --- For the parts of the simulator.

  World::QueuePairId id() const noexcept { return id_; }
  bool is_connected() const noexcept { return state_ == State::kConnected; }
  Hostility hostility;  // a test sets it, to let the owner break rules

  // Something can be polled: what would wake the owner on a real machine.
  bool has_news() const noexcept { return work_.has_completions() || news_.has_event(); }

  void start_setup_timer();
  // Accepts on the passive side, and tells the initiator.
  void accept(World::QueuePairId initiator, std::vector<std::byte> peer_private_data,
              std::vector<std::byte> private_data);
  // Handle the answers to the request, on the active side.
  void handle_accepted(World::QueuePairId acceptor, std::vector<std::byte> private_data);
  void handle_refused(const Error& cause);
  // Ends the connection; each side notices in its own time.
  void break_connection();

 private:
  enum class State : std::uint8_t {
    kConnecting,  // waits for the peer's answer, or (acceptor) its first message
    kConnected,   // until anybody ends it
    kClosing,     // disconnect() was called; its own event ends it
    kClosed,      // for ever
  };
  // Calls the function for this queue pair, if it is still there, when one step of work has passed,
  // and not before `*last`, which is moved on.
  template <class Argument>
  void later(Instant* last, void (QueuePair::*function)(Argument), Argument argument) {
    world_.after_in_order(world_.draw_latency(), last,
                          [world = &world_, id = id_, function, argument] {
                            QueuePair* const self = world->find(id);
                            if (self != nullptr) (self->*function)(argument);
                          });
  }

  // Outgoing work.
  void take(work::Request& request);
  void depart(Serial serial);
  void travel(Message message);
  void handle_taken_by_peer(Serial serial);
  void complete_later(Serial serial);

  // Arrivals.
  void arrive(SendMessage& message);
  void arrive(WriteMessage& message);
  void arrive(ReadMessage& message);
  void arrive(ReadResponse& message);
  void arrive(ReadyMessage& message);
  void arrive(EndMessage& message);
  void respond(ReadMessage message);
  // Ends the connection because of what the peer did with its work `serial`.
  void terminate(Serial serial, Status status, std::string_view text,
                 std::optional<Remote> write = std::nullopt);

  void run_local(Serial serial);
  void close(const Error& cause, LinkEvent event);

  World& world_;
  News<QueuePair> news_{*this, nullptr};
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
  WorkQueues work_{capabilities_, news_};
  SharedMessages messages_{world_};  // with shares_receives

  // When the last of each kind is due: what follows is due no earlier.
  Instant last_departure_{}, last_arrival_{}, last_completion_{}, last_response_{}, last_local_{};
  Counters counters_;
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_QUEUE_PAIR_H_
