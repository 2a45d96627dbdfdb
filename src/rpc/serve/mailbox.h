// The owner of connections, as their sessions see it: it takes what comes from other threads.
#ifndef RPCRDMA_RPC_SERVE_MAILBOX_H_
#define RPCRDMA_RPC_SERVE_MAILBOX_H_

#include "rpcrdma/client.h"
#include "rpcrdma/error.h"

namespace rpcrdma::rpc {

class BackwardCaller;
class IncomingCall;
class ReplyCarrier;
class Session;

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
  virtual void set_adrift(BackwardCaller& caller, bool adrift) = 0;

 protected:
  ~Mailbox() = default;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_MAILBOX_H_
