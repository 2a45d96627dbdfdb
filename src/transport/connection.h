// The driver of one connection: the only code that knows both the engine and a provider.
//
// It posts what the engine wants done, hands completions and messages to the engine, and owns the
// memory of Receives and headers. It holds no protocol.
#ifndef RPCRDMA_TRANSPORT_CONNECTION_H_
#define RPCRDMA_TRANSPORT_CONNECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "engine/connection.h"
#include "rpcrdma/provider.h"
#include "transport/message_rooms.h"
#include "transport/pages.h"
#include "transport/receive_memory.h"
#include "transport/tapping.h"

namespace rpcrdma::transport {

class Connection {
 public:
  // Takes over a queue pair from Provider::connect() or accept(), at once, before the provider
  // makes progress, so that the Receives are posted in time. Fails when the memory cannot be
  // registered. `call_rooms`, one for each slot of a Call that we make, outlive the connection;
  // null: it has its own. `tap`, which outlives it too: null if nobody will ever look.
  static Expected<std::unique_ptr<Connection>, rdma::Error> create(
      std::unique_ptr<rdma::QueuePair> queue_pair, engine::Role role,
      const engine::Options& options, MessageRooms* call_rooms = nullptr, Tap* tap = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Registers memory to be lent to the engine on this connection; the caller keeps it until
  // detach().
  Expected<engine::Lease, rdma::Error> attach(MutableBytes memory);
  Expected<engine::Lease, rdma::Error> attach_read_only(Bytes memory);
  // Precondition: no call holds the lease.
  void detach(engine::Lease lease);

  // Memory for one small message, registered as long as the connection lives; one for each slot of
  // the Calls that we make and of those that we answer. The layer above tracks the owner.
  struct Room {
    MutableBytes memory;  // MessageRooms::kSize bytes
    engine::Lease lease;
    std::uint64_t offset;  // of the memory in the lease, bytes
    // Returns the room for the header in front of the message, for engine::Outgoing if the
    // message's first run is the start of `memory`.
    std::byte* header_room() const noexcept { return memory.data() - engine::kShortHeaderSizeMax; }
  };
  Room call_room(std::size_t index) const noexcept {
    return {call_rooms_->room(index), call_lease_, MessageRooms::offset(index)};
  }
  // Never another connection's: a service may write after its connection is lost.
  Room answer_room(std::size_t index) const noexcept {
    return {answer_rooms_.room(index), answer_lease_, MessageRooms::offset(index)};
  }

  // Returns the size of the Receives that are posted from now on, bytes.
  std::uint32_t receive_size() const noexcept { return receive_memory_.size(); }

  // Commands go to the engine; pump() afterwards.
  engine::Connection& engine() noexcept { return engine_; }
  const engine::Connection& engine() const noexcept { return engine_; }

  // How far pump() came. kPart: it has ended before nothing moved, and nothing else will tell.
  enum class Moved : std::uint8_t { kNothing, kAll, kPart };
  // Completions in, actions out, until nothing moves, or for kStepsMax steps: a peer may send
  // messages that are dropped, or answered by errors, as fast as their Receives come back. Poll the
  // engine's events afterwards, and pump again when they led to commands, or after kPart.
  // `looked`: when all that was there was read last, if that is not now. Times that begin do so
  // now, and times that are over are judged by then: behind it something may have come that is not
  // read.
  Moved pump(Instant now, std::optional<Instant> looked = std::nullopt);
  static constexpr int kStepsMax = 64;  // each of a batch of completions and of work

  // See QueuePair. When it has told, pump() has something to do.
  bool set_ready_listener(rdma::NewsListener& listener) noexcept {
    return queue_pair_->set_ready_listener(listener);
  }

  bool connected() const noexcept { return connected_; }
  bool ended() const noexcept { return ended_; }  // refused, disconnected, or given up
  void disconnect() noexcept { queue_pair_->disconnect(); }
  Profile profile() const noexcept { return options_.profile; }
  const rdma::Capabilities& capabilities() const noexcept { return queue_pair_->capabilities(); }
  // RDMA Reads that may be in progress at a time, by the connection set-up.
  std::uint32_t reads_in_flight_max() const noexcept { return capabilities().reads_in_flight_max; }
  // RDMA Reads of the peer's that may be in progress at a time, by the connection set-up.
  std::uint32_t reads_served_max() const noexcept { return capabilities().reads_served_max; }
  bool registering_is_costly() const noexcept { return capabilities().registering_is_costly; }
  bool shares_receives() const noexcept { return capabilities().shares_receives; }
  // Returns why the connection ended, also if the engine gave it up.
  rdma::Error cause() const noexcept;
  // Returns the error behind engine::CallError::kNoMemory.
  rdma::Error exposure_failure() const noexcept { return queue_pair_->exposure_failure(); }
  std::string_view peer_address() const noexcept { return queue_pair_->peer_address(); }
  rdma::Counters counters() const noexcept { return queue_pair_->counters(); }

 private:
  static constexpr std::size_t kBatch = 64;

  struct Headers {  // where the engine encodes them
    Pages memory;
    std::optional<work::RegionId> region;  // without it nothing is created
  };

  Connection(std::unique_ptr<rdma::QueuePair> queue_pair, Headers headers, engine::Role role,
             const engine::Options& options, MessageRooms* call_rooms, Tap* tap);
  bool is_tapped() const noexcept { return tapping_ != nullptr && tapping_->is_on(); }
  bool register_arenas();
  bool take_link_event();
  void handle_connected();
  void handle_disconnected();
  bool take_completions(Instant now);
  void take_completion(Instant now, const rdma::Completion& completion);
  [[gnu::cold, gnu::noinline]] void show(std::span<const rdma::Completion> completions);
  [[gnu::cold, gnu::noinline]] void show_end();
  bool post_receives();
  void release_receives();
  bool post_work();
  bool end_if_asked();
  bool post_waiting();
  void handle_copied(std::span<const work::Request> posted);
  void flush_waiting();

  const engine::Options options_;
  const Headers headers_;
  std::unique_ptr<MessageRooms> own_rooms_;  // behind call_rooms_, if none were given
  MessageRooms* const call_rooms_;
  const MessageRooms answer_rooms_;
  engine::Connection engine_;
  ReceiveMemory receive_memory_;
  std::unique_ptr<rdma::QueuePair> queue_pair_;  // dies before the memory that it was lent
  const std::unique_ptr<Tapping> tapping_;       // null: nobody will ever look
  engine::Lease call_lease_{}, answer_lease_{};

  // Taken from the engine; the queue pair had no room yet for those that wait.
  std::array<work::Request, kBatch> work_;
  std::array<engine::Slices, kBatch> slices_;
  std::size_t waiting_first_ = 0, waiting_count_ = 0;
  std::array<engine::ReceiveId, kBatch> receives_;
  std::array<std::uint16_t, kBatch> receive_numbers_;
  std::array<rdma::Completion, kBatch> completions_;  // kept, since making them anew clears them
  rdma::Completion copied_;  // the same for a Send that the provider has copied
  bool connected_ = false, ended_ = false;
};

}  // namespace rpcrdma::transport

#endif  // RPCRDMA_TRANSPORT_CONNECTION_H_
