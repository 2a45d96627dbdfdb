// The seams between one way of serving Calls (serving.h), the transports that carry the replies,
// and the owner of the connections.
#ifndef RPCRDMA_RPC_SERVE_REPLY_CARRIER_H_
#define RPCRDMA_RPC_SERVE_REPLY_CARRIER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "oncrpc/message.h"
#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class BackwardCaller;
class IncomingCall;
class Session;

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
  // Sets the time of what is sent from now on: a call may be answered long after the last turn, and
  // its peer gets all of its time from here. Only for carriers that do not read a clock themselves.
  virtual void handle_time(Instant /*now*/) noexcept {}
  // Asks for a turn: there is something to do that no peer has caused.
  virtual void want_turn() noexcept = 0;

 protected:
  ~ReplyCarrier() = default;
};

// Takes answers and ends of steps that come from other threads, or from outside of the turn of
// their connection.
class Mailbox {
 public:
  // Keeps the call for the thread of its connection, which then calls Serving::handle_delivered().
  // From any thread.
  virtual void deliver(IncomingCall& call) = 0;
  // Returns whether this thread is in the turn of `carrier` in the owner's progress(), so that an
  // answer may go out directly. In the turn of another connection it takes the mailbox: its own
  // connection may get no turn before something else happens.
  virtual bool in_turn_of(const ReplyCarrier& carrier) const noexcept = 0;
  // Makes a client over the session's connection, for Calls in the reverse direction.
  virtual Expected<Client, Error> client_of(Session& session, const BackwardOptions& options) = 0;
  // Keeps a caller whose connection is lost, and whose Calls wait for the next one, or lets it go.
  virtual void set_disconnected(BackwardCaller& caller, bool disconnected) = 0;

 protected:
  ~Mailbox() = default;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REPLY_CARRIER_H_
