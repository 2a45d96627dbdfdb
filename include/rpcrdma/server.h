// Answers RPC Calls over RDMA, and over TCP for clients without RDMA.
//
//   auto server = rpcrdma::Server::listen("rdma://0.0.0.0:20049");
//   server->add_listener("tcp://0.0.0.0:2049");  // the same services over records (RFC 5531 §11)
//   server->add(kProgram, kVersion, service);
//   server->run();                   // until stop(), also from a signal handler; see failure()
//
// Threads: a server belongs to one thread. Only stop() and the answers of a CallContext may come
// from other threads. With ServerOptions::shards it has further threads of its own, on all of which
// services are called.
//
// After fork() the server is the parent's. A child may destroy its copy, on the thread that drives
// it, which is the one that forked; with shards that run, it keeps their memory and descriptors
// until it ends. Without, it may also go on with the server in its parent's place.
#ifndef RPCRDMA_SERVER_H_
#define RPCRDMA_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/options.h"
#include "rpcrdma/service.h"
#include "rpcrdma/statistics.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class MessageService;
class ServerAuth;
class ServerImpl;
namespace rdma {
class Provider;
}  // namespace rdma
namespace rpc {
class ShardGroup;
}  // namespace rpc

class RPCRDMA_EXPORT Server {
 public:
  // Listens on rdma://HOST[:PORT], tcp://HOST:PORT or unix:///PATH; port 0 takes a free one.
  // unix:/// creates a Unix socket file, which is removed with the listener; the process's umask
  // determines which users may connect. An existing file is an error, even if it is the socket of a
  // killed server: remove it. A path has at most 107 bytes.
  static Expected<Server, Error> listen(std::string_view url, const ServerOptions& options = {});
  // Does the same over the application's own RDMA stack or a test double (rpcrdma/provider.h),
  // which the server then owns. The address is passed to the provider unchanged; ProviderOptions,
  // share_port and shared_receives are ignored. Fails as its listen() does, and with kUnsupported
  // if there is no provider.
  static Expected<Server, Error> listen(std::unique_ptr<rdma::Provider> provider,
                                        std::string_view address,
                                        const ServerOptions& options = {});
  // Also listens on this URL, for the same services; returns what address() would. One provider
  // serves all rdma:// addresses; the first of them chooses it. Call on the server's thread;
  // wait_fd() may differ afterwards. Fails as listen() does, and the server continues.
  //
  // Over TCP and Unix sockets, bulk items are in the message. CallContext is the same for services,
  // but calls in the reverse direction (Backward::client_of()) fail with kUnsupported. A tcp://
  // connection may step up: CallContext::step_up().
  Expected<std::string, Error> add_listener(std::string_view url);
  // Does the same on a TCP or Unix stream socket that listens already, such as one of a service
  // manager (socket activation). The library owns the descriptor from now on, even if this fails:
  // kUnsupported if it is no such socket.
  Expected<std::string, Error> add_listener(int descriptor);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  // Ends all connections at once. No service may use a CallContext of the server afterwards.
  ~Server();

  // The service outlives the server. Fails if the program version is already served. With several
  // shards this, add_listener(), accept_flavor(), serve_messages() and register_read_only() come
  // before the first progress() or run(), and fail with kUnsupported afterwards.
  Expected<void, Error> add(std::uint32_t program, std::uint32_t version, Service& service);

  // `auth` checks and answers calls with credentials of this flavor (rpcrdma/auth.h). It outlives
  // the server. For AUTH_NONE and AUTH_SYS it replaces the built-in check. Call before run(), or on
  // the server's thread. Fails if the flavor already has one. Calls with other flavors
  // without one are denied (AUTH_BADCRED; AUTH_SHORT gets AUTH_REJECTEDCRED), also NULL. Only
  // serve_messages() takes them as they are.
  Expected<void, Error> accept_flavor(AuthFlavor flavor, ServerAuth& auth);

  // Takes calls with RPCSEC_GSS (rpcrdma/gss.h), on all transports. Contexts are made by calls of
  // procedure 0 of any program. Call as accept_flavor(). Fails as gss::make_kerberos() does.
  Expected<void, Error> secure(const gss::ServerSecurity& security = {});

  // Calls of this program version that are protected otherwise are denied (AUTH_TOOWEAK): of one
  // procedure, or of all that have no list of their own. Procedure 0 is for everybody. Call as
  // accept_flavor(); fails if there is such a list already.
  Expected<void, Error> require(std::uint32_t program, std::uint32_t version,
                                std::vector<Protection> allowed,
                                std::optional<std::uint32_t> procedure = std::nullopt);

  // Passes all Calls for which no service was added to this service, as whole messages. It outlives
  // the server. Call before run(), or on the server's thread. Fails if there is one already.
  Expected<void, Error> serve_messages(MessageService& service);

  // Serves RDMA over an existing TCP connection of the application, whose other end now calls
  // TakeOver::adopt(); see there. The library owns the descriptor from now on, even if this fails:
  // kUnsupported without an rdma:// listener. Call on the server's thread.
  Expected<void, Error> adopt(int descriptor);

  // Registers memory for bulk results (RFC 5666 §7). Results that lie entirely inside it are
  // registered once for each connection that sends from it, not for each call. Like all memory from
  // which a service sends results, it outlives the server. Fails with kUnsupported if the memory is
  // empty or overlaps registered memory.
  Expected<void, Error> register_read_only(Bytes memory);

  // "ADDR:PORT" of the first listener, with the real port; for unix://, the path.
  std::string_view address() const noexcept;
  // "tcp" without an rdma:// listener.
  std::string_view provider_name() const noexcept;

  // Serves until stop(), then drains: there are no new connections, calls in service are answered,
  // and each connection is closed when its calls are done. After drain_timeout the remaining
  // connections are cut, even if a service has not answered: it must answer, or forget the context,
  // before the server is destroyed. Without stop(), run() returns when failure() has a value, no
  // listener is left and the last connection has ended.
  void run();
  // Makes run() drain and return. Callable from any thread and from a signal handler.
  void stop() noexcept;

  // Returns why a listener accepts no more connections although the server was not stopped: the
  // RDMA device that it listens on, or the last one of a wildcard address, was removed. Remaining
  // connections are served to their end, and other listeners continue.
  const std::optional<Error>& failure() const noexcept;

  // Lets a foreign event loop drive the server: poll wait_fd() for reading, then call progress(),
  // until drained() is true, which it becomes after stop(), or after failure() of the last
  // listener.
  int wait_fd() const noexcept;
  void progress();
  // Looks for a moment whether there is something for progress(), as run() does before it sleeps
  // (for 20 us, yielding to peers on this core), and returns whether there is. A foreign loop that
  // has just served a call saves a turn of its own with it: the next call is often as near. Once
  // it has returned true, nobody signals the descriptor for the rest of long messages: a loop that
  // then polls, instead of lingering again, calls wait_fd() first.
  bool linger();
  bool drained() const noexcept;

  // Figures of all shards. Another shard is asked for its own, and gives them between two calls: of
  // one whose service is busy for longer than 100 ms they are those that it gave last.
  std::size_t connections() const noexcept;
  // Posted Receives over all connections; see ServerOptions::receives_max.
  std::size_t receives_posted() const noexcept;
  // Returns whether current connections receive into memory that they share: over siwarp they do,
  // except with Profile::kRfc5666; over RDMA devices see SharedReceives.
  bool shares_receives() const noexcept;
  std::size_t memory_in_use() const noexcept;  // bulk and message buffers lent to calls, bytes
  TransferCounters counters() const noexcept;
  // All figures, for monitoring; see rpcrdma/statistics.h. Callable from any thread while the
  // server lives. Shards give their figures between two calls: of one that is busy for longer than
  // 100 ms, or that nobody drives, they are those that it gave last. `with_connections`: also one
  // entry for each connection, which takes a shard about a microsecond.
  ServerStatistics statistics(bool with_connections = false) const;

 private:
  friend class ServerImpl;
  explicit Server(std::unique_ptr<rpc::ShardGroup> shards) noexcept;
  std::unique_ptr<rpc::ShardGroup> shards_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_SERVER_H_
