// Carries calls over RPC-over-RDMA: memory that is lent and registered, and the engine's events.
#ifndef RPCRDMA_RPC_CALL_RDMA_CARRIER_H_
#define RPCRDMA_RPC_CALL_RDMA_CARRIER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "rpc/call/call_flow.h"
#include "rpc/call/call_sender.h"
#include "rpc/call/carrier.h"
#include "rpc/call/peer_errors.h"
#include "rpc/connection_memory.h"
#include "rpc/region_table.h"
#include "rpcrdma/client.h"
#include "rpcrdma/provider.h"
#include "transport/connection.h"
#include "transport/message_rooms.h"

namespace rpcrdma::rpc {

// Its connection is the client's own, or that of a server's session.
class RdmaCarrier final : public Carrier {
 public:
  // Handles what belongs to the owner of the connection.
  class Owner {
   public:
    // A Receive was given back, outside of a round; `is_waited_for`: by a call, perhaps, and
    // nothing else would wake the caller's loop.
    virtual void handle_released(bool is_waited_for) = 0;
    // An event of the engine's other half.
    virtual void handle_other(const engine::Event& event) = 0;

   protected:
    ~Owner() = default;
  };
  // Says whether a connection that is up takes calls.
  enum class Use : std::uint8_t {
    kNotYet,  // it is being configured
    kNow,
    kNoMore,  // it lives on without this client
  };

  // All that is named here outlives it. `rooms` hold the messages, by slot; null: the connection's.
  RdmaCarrier(rdma::Provider& provider, CallFlow& flow, Owner& owner,
              const CallSender::Limits& limits, const transport::MessageRooms* rooms);

  // Null: there is none.
  void use_connection(transport::Connection* connection);
  // Precondition: there is a connection, if `rooms` is null.
  void use_rooms(const transport::MessageRooms* rooms) noexcept { rooms_ = rooms; }
  void set_use(Use use) noexcept { use_ = use; }
  Use use() const noexcept { return use_; }
  MutableBytes room(std::uint32_t index) const {
    return rooms_ != nullptr ? rooms_->room(index) : connection_->call_room(index).memory;
  }
  void handle(const engine::Event& event);
  // The connection is about to be destroyed, or to be kept for the Receives of replies alone.
  void forget_connection();

  bool lend_stream(CallSlot& slot, std::size_t arguments_size) override;
  std::optional<Error> send(CallSlot& slot) override;
  void take_back(CallSlot& slot) override { memory_.take_back(slot.memory, slot.connection); }
  void free(CallSlot& slot, bool keeps_call) override;
  bool is_up() const noexcept override {
    return connection_ != nullptr && connection_->connected() && use_ == Use::kNow;
  }
  bool has_ended() const noexcept override {
    return connection_ == nullptr || connection_->ended() || use_ == Use::kNoMore;
  }
  std::uint32_t calls_in_flight() const noexcept override {
    return connection_ != nullptr ? connection_->engine().requester().calls_in_flight() : 0;
  }
  std::string_view peer() const noexcept override { return errors_.peer(); }
  Error explain(engine::CallError error) const override {
    return errors_.explain(error, connection_);
  }
  Instant clock() const override { return provider_.now(); }

  std::optional<ConnectionCharacteristics> characteristics() const noexcept;
  std::optional<ConnectionTerms> terms() const noexcept;
  PeerErrors& errors() noexcept { return errors_; }
  const PeerErrors& errors() const noexcept { return errors_; }
  ConnectionMemory& memory() noexcept { return memory_; }
  RegionTable& regions() noexcept { return regions_; }

 private:
  void handle_reply(std::uint32_t index, const engine::ReplyReady& reply);
  void handle_failed(std::uint32_t index, engine::CallError error);

  rdma::Provider& provider_;  // a server's may have gone before its backward clients
  CallFlow& flow_;
  Owner& owner_;
  PeerErrors errors_;
  const transport::MessageRooms* rooms_;
  RegionTable regions_;
  ConnectionMemory memory_{regions_, Registering::kAhead};
  transport::Connection* connection_ = nullptr;
  Use use_ = Use::kNow;
  CallSender sender_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_RDMA_CARRIER_H_
