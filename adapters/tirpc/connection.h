// One connection of a peer: the SVCXPRT from which libtirpc takes its calls, one after the other.
#ifndef RPCRDMA_ADAPTERS_TIRPC_CONNECTION_H_
#define RPCRDMA_ADAPTERS_TIRPC_CONNECTION_H_

#include <rpc/rpc.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "rpcrdma/service.h"
#include "transport.h"
#include "xdr_streams.h"

namespace rpcrdma::tirpc {

class RdmaServer;

class Connection {
 public:
  // Null: there is no descriptor for it.
  static std::unique_ptr<Connection> make(RdmaServer& server, std::uint64_t number,
                                          std::string_view peer, const SocketAddress& local);
  // Fails the calls that nobody has answered.
  ~Connection();

  // Adds a call that has come.
  void push(CallContext& context) { waiting_.push_back(&context); }
  // Has libtirpc dispatch the calls that wait. That may destroy this object.
  void dispatch();
  // The peer has gone, or the program wants no more of it: SVC_STAT says so, and the loop that
  // dispatches a call of this connection then destroys it.
  void lose() noexcept { is_lost_ = true; }
  bool is_lost() const noexcept { return is_lost_; }
  // Returns whether libtirpc dispatches a call of it, and still needs the transport.
  bool is_busy() const noexcept { return is_busy_; }
  std::uint64_t number() const noexcept { return number_; }

 private:
  Connection(RdmaServer& server, std::uint64_t number);
  static Connection& of(SVCXPRT* handle) noexcept { return Transport::of<Connection>(handle); }
  static const TransportOperations kOperations;
  static const TransportControl kControl;

  bool receive(rpc_msg& message);
  xprt_stat status() noexcept;
  bool decode_arguments(xdrproc_t decode, void* arguments);
  bool reply(rpc_msg& message);
  // Encodes the reply to the current call into the writer of all.
  bool encode(rpc_msg& message);
  // Writes the reply into the call's results. False: there is no memory.
  static bool write(CallContext& context);
  // Ends the call that was taken last, without an answer of the program.
  void drop_current() noexcept;

  RdmaServer& server_;
  const std::uint64_t number_;  // CallContext::connection_number()
  Transport transport_;
  int other_end_ = -1;  // of the transport's descriptor, which a program may shut down
  bool is_lost_ = false;
  bool is_busy_ = false;  // from SVC_RECV to SVC_STAT
  std::deque<CallContext*> waiting_;
  CallContext* current_ = nullptr;  // taken, and not answered yet
  std::uint32_t xid_ = 0;           // of the call that was taken last
  XdrReader arguments_;
};

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_CONNECTION_H_
