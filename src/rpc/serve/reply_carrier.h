// The seam between one way of serving Calls (serving.h) and the transports that carry the replies.
#ifndef RPCRDMA_RPC_SERVE_REPLY_CARRIER_H_
#define RPCRDMA_RPC_SERVE_REPLY_CARRIER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "oncrpc/message.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class IncomingCall;

// Results as an authenticator has wrapped them. Neither is set: they are sent as the service wrote
// them.
struct WrappedResults {
  std::optional<Bytes> replaced{};  // sent in place of the results
  Bytes after{};                    // sent behind them
};

// Why a Call ends without a reply.
enum class NoReply : std::uint8_t {
  kIsReply,  // its msg_type does not say CALL
  kCutOff,   // its message ends inside of the header
  kLost,     // its connection has ended meanwhile
  kUnheard,  // its authenticator ends the connection: nothing else is to be heard of this peer
};

// One connection. All of it is called on the thread that drives the connection.
class ReplyCarrier {
 public:
  virtual std::string_view peer_address() const noexcept = 0;
  virtual bool ended() const noexcept = 0;

  // Both return memory that the call keeps until its reply is out, and none if there is no more.
  // room() is for a reply of `size` bytes without bulk items, borrow() for one bulk item.
  virtual MutableBytes room(IncomingCall& call, std::size_t size) = 0;
  virtual MutableBytes borrow(IncomingCall& call, std::size_t size) = 0;

  // Sends a reply with results; its header begins at `start` in the call's results_buffer_. Returns
  // false if it cannot be sent, and then sends nothing.
  virtual bool send(IncomingCall& call, std::size_t start, const WrappedResults& wrapped) = 0;
  virtual void send_plain(IncomingCall& call, const oncrpc::ReplyHeader& header) = 0;
  virtual void give_up(IncomingCall& call, NoReply why) = 0;

  // Serves a call that Serving::admit() left for a step of authentication, which has accepted it
  // since.
  virtual void handle_admitted(IncomingCall& call) = 0;
  // Asks for a turn: there is something to do that no peer has caused.
  virtual void want_turn() noexcept = 0;

 protected:
  ~ReplyCarrier() = default;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REPLY_CARRIER_H_
