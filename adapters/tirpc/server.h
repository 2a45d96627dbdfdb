// The RDMA server of this process, and libtirpc's view of it: a SVCXPRT that listens, the
// rendezvous, and one SVCXPRT for each connection.
#ifndef RPCRDMA_ADAPTERS_TIRPC_SERVER_H_
#define RPCRDMA_ADAPTERS_TIRPC_SERVER_H_

#include <rpc/rpc.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "connection.h"
#include "rpcrdma/message_service.h"
#include "rpcrdma/server.h"
#include "socket_address.h"
#include "transport.h"

namespace rpcrdma::tirpc {

// Belongs to the thread that runs the program's loop, as all of libtirpc's server does.
class RdmaServer final : public MessageService {
 public:
  // Returns the process's server; null: there is none.
  static RdmaServer* current() noexcept;
  // Makes it, or adds the address to the one that there is.
  static Expected<RdmaServer*, Error> listen(const std::string& url);

  ~RdmaServer() override;

  SVCXPRT& rendezvous() noexcept { return transport_.handle(); }
  // "ADDR:PORT" of each listener.
  const std::vector<std::string>& addresses() const noexcept { return addresses_; }
  // Ends the server and all its connections; behind the calls that are being dispatched.
  void end();

  void call(CallContext& context) override;  // of MessageService
  // Both are called when this process has forked, the second one in the child.
  void note_fork() const noexcept;
  void become_child() noexcept;

  // SVC_DESTROY of a connection: destroys it, or has libtirpc do so behind the call that it
  // dispatches.
  void destroy(Connection& connection);

 private:
  RdmaServer();
  Expected<void, Error> open(const std::string& url);
  void handle_event(const ConnectionEvent& event) noexcept;
  // SVC_RECV of the rendezvous: takes what has come, and has libtirpc dispatch it.
  void serve();
  void progress_while_more_comes();
  void end_lost();
  void note_child() noexcept;
  Connection* connection_of(const CallContext& context);
  // Puts the server's descriptor into the rendezvous' one. Fails if the system refuses that.
  Expected<void, Error> watch_server(const std::string& url);
  // Has the rendezvous' descriptor become readable with the server's, or not at all.
  void open_gate(bool is_open) noexcept;

  Transport transport_;
  std::vector<std::string> addresses_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;  // by number
  bool has_lost_ = false;  // the peers of some have gone; libtirpc still knows these
  std::optional<Server> server_;
  // The rendezvous' descriptor is an epoll set with the server's one in it.
  int watched_ = -1;
  bool gate_is_open_ = false;
  // SVC_RECV of the rendezvous is under way. Calls are dispatched inside of it, and a dispatch
  // function may run a loop of its own, which serves all other transports.
  bool is_serving_ = false;
  bool is_ending_ = false;
  bool is_of_device_ = false;  // which no child of this process can use
  bool is_child_ = false;      // such a child
  int child_signal_ = -1;      // readable until the child has said so
};

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_SERVER_H_
