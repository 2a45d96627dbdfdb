// The RDMA server of this process, and libtirpc's view of it: a SVCXPRT that listens, the
// rendezvous, and one SVCXPRT for each connection.
#ifndef RPCRDMA_ADAPTERS_TIRPC_SERVER_H_
#define RPCRDMA_ADAPTERS_TIRPC_SERVER_H_

#include <rpc/rpc.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  // This process is a child of another, from which it has the server.
  void handle_fork() noexcept { is_child_ = true; }

  // SVC_DESTROY of a connection: destroys it, or has libtirpc do so behind the call that it
  // dispatches.
  void destroy(Connection& connection);

 private:
  RdmaServer();
  Expected<void, Error> open(const std::string& url);
  void handle_event(const ConnectionEvent& event);
  // SVC_RECV of the rendezvous: takes what has come, and has libtirpc dispatch it.
  void serve();
  void progress_while_calls_come();
  void end_lost();
  void note_child();
  Connection* connection_of(std::string_view peer);
  void report_once(std::string_view text);

  Transport transport_;
  std::vector<std::string> addresses_;
  std::map<std::string, std::unique_ptr<Connection>, std::less<>> connections_;
  std::vector<std::unique_ptr<Connection>> lost_;  // ended by the peer; libtirpc still knows them
  std::optional<Server> server_;
  // SVC_RECV of the rendezvous is under way. Calls are dispatched inside of it, and a dispatch
  // function may run a loop of its own, which serves all other transports.
  bool is_serving_ = false;
  bool is_ending_ = false;
  std::uint64_t calls_ = 0, lingered_ = 0;
  std::chrono::steady_clock::time_point rests_until_{};
  bool has_reported_ = false;
  bool is_child_ = false;  // of the process that made it
};

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_SERVER_H_
