// Carries calls over TCP or a Unix socket (RFC 5531 §11), whose bulk items stay in the stream.
#ifndef RPCRDMA_RPC_CALL_TCP_CARRIER_H_
#define RPCRDMA_RPC_CALL_TCP_CARRIER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "posix/address.h"
#include "posix/reactor.h"
#include "rpc/call/call_flow.h"
#include "rpc/call/carrier.h"
#include "rpc/call/reply_memory.h"
#include "rpcrdma/counters.h"
#include "tcp/connection.h"

namespace rpcrdma::rpc {

class TcpCarrier final : public Carrier {
 public:
  // Both outlive it.
  TcpCarrier(posix::Reactor& reactor, CallFlow& flow);

  // Starts to connect. `peer` is the address, for texts.
  Expected<void, posix::SystemError> connect(const posix::Address& address, std::string_view peer);
  // A part of a round: takes replies, ends calls whose time is over, and sends.
  // `looked`: when all that was there was read last; time-outs are judged by then.
  void pump(Instant looked);
  // Drops what is left of a connection that has ended.
  void retire();
  void abort() {
    if (connection_ != nullptr) connection_->abort();
  }
  bool is_lost() const noexcept {
    return connection_ != nullptr && connection_->ended() && in_flight_ == 0;
  }
  // A call timed out whose message the server had not taken: its memory was the caller's again only
  // when the connection had let go of it.
  bool was_given_up() const noexcept { return gave_up_; }
  // Returns whether the server has sent anything over this connection.
  bool has_received() const noexcept {
    return connection_ != nullptr && connection_->bytes_received() > 0;
  }
  bool has_stepped_up() const noexcept { return stepped_up_; }
  // Says why the connection has ended; nullopt: there is none.
  std::optional<tcp::End> cause() const noexcept;
  // Returns the socket, for RDMA; the connection has ended then. Nothing: see
  // tcp::Connection::release().
  std::optional<posix::Fd> release();
  bool is_local() const noexcept { return connection_ != nullptr && connection_->is_local(); }
  // When the time of a call that was sent is over, or earlier.
  Deadline next_deadline() const noexcept { return next_deadline_; }
  TransferCounters counters() const noexcept;

  bool lend_stream(CallSlot& slot, std::size_t arguments_size) override;
  std::optional<Error> send(CallSlot& slot) override;
  void take_back(CallSlot& /*slot*/) override {}
  void free(CallSlot& slot, bool keeps_call) override;
  bool is_up() const noexcept override {
    return connection_ != nullptr && connection_->connected() && !connection_->ended();
  }
  bool has_ended() const noexcept override {
    return connection_ == nullptr || connection_->ended();
  }
  std::uint32_t calls_in_flight() const noexcept override { return in_flight_; }
  std::string_view peer() const noexcept override { return peer_; }
  Error explain(engine::CallError error) const override;
  Instant clock() const override { return posix::Reactor::now(); }

 private:
  // A call that was sent.
  struct Sent {
    std::uint64_t number = 0;  // of its message, among those of the connection
    bool is_early = false;     // `reply` came before all of the message had gone
    tcp::Message reply;
  };

  Sent& sent_of(const CallSlot& slot) { return sent_[flow_.calls().index_of(slot)]; }
  bool is_settled(const Sent& sent) const noexcept { return connection_->settled() > sent.number; }
  void receive(std::uint32_t messages_max);
  void take_reply(tcp::Message message);
  void complete_early();
  void complete(std::uint32_t index);
  std::optional<Error> read(CallSlot& slot);
  void time_out(Instant looked);
  bool is_reply_refused() const noexcept;
  void lose_all(Instant looked);
  void note_end(Sent& sent) noexcept;

  posix::Reactor& reactor_;
  CallFlow& flow_;
  ReplyMemory memory_;
  std::string peer_;
  std::vector<Sent> sent_;                       // by slot
  std::unique_ptr<tcp::Connection> connection_;  // goes before the memory that it was lent
  std::uint64_t messages_ = 0;                   // sent over the connection
  std::uint32_t in_flight_ = 0;                  // calls
  std::uint32_t early_ = 0;                      // of those, with a reply that has to wait
  Deadline next_deadline_;                       // none of them has less time
  TransferCounters past_;                        // without the bytes of this connection
  bool gave_up_ = false;
  bool stepped_up_ = false;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_TCP_CARRIER_H_
