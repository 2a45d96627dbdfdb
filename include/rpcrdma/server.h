// Answers RPC Calls over RDMA, and over TCP for clients without it.
//
//   auto server = rpcrdma::Server::listen("rdma://0.0.0.0:20049");
//   server->also_listen("tcp://0.0.0.0:2049");  // the same services over records (RFC 5531 §11)
//   server->add(kProgram, kVersion, service);
//   server->run();                   // until stop(), also from a signal handler; see failure()
//
// Threads: a server belongs to one thread; only stop() and the answers of a CallContext may come
// from others.
#ifndef RPCRDMA_SERVER_H_
#define RPCRDMA_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/options.h"
#include "rpcrdma/service.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class MessageService;
class ServerAuth;
class ServerImpl;
namespace rdma {
class Provider;
}  // namespace rdma

class RPCRDMA_EXPORT Server {
 public:
  // Listens on rdma://HOST[:PORT], tcp://HOST:PORT or unix:///PATH; port 0 takes a free one. The
  // last makes a file, a Unix socket, which goes with the listener; the umask of the process says
  // which users may connect. A file that is there already is an error, also when it is a socket
  // whose server was killed: remove it. A path has 107 bytes at most.
  static Expected<Server, Error> listen(std::string_view url, const ServerOptions& options = {});
  // The same over an RDMA stack of the application's, or a test double, which becomes the server's
  // (rpcrdma/provider.h). The address goes to the provider as it is, and ProviderOptions,
  // share_port and shared_receives mean nothing. Fails as its listen() does, and with kUnsupported
  // when there is no provider.
  static Expected<Server, Error> listen(std::unique_ptr<rdma::Provider> provider,
                                        std::string_view address,
                                        const ServerOptions& options = {});
  // Listens there as well, for the same services; returns what address() would. All
  // rdma:// addresses are served by one provider, which the first of them chooses. On the server's
  // thread; wait_fd() may be another one afterwards. Fails as listen() does, and the server goes
  // on.
  //
  // Over TCP and Unix sockets bulk items are in the message. CallContext is the same for services,
  // but calls in the reverse direction (Client::backward()) are kUnsupported there. A connection of
  // tcp:// may step up: CallContext::step_up().
  Expected<std::string, Error> also_listen(std::string_view url);
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  // Connections end at once. No service may use a CallContext of the server afterwards.
  ~Server();

  // The service outlives the server. Fails when the program version is there already.
  Expected<void, Error> add(std::uint32_t program, std::uint32_t version, Service& service);

  // Calls with credentials of this flavor are checked and answered by `auth` (rpcrdma/auth.h),
  // which outlives the server; AUTH_NONE and AUTH_SYS too, in place of what is built in. Before
  // run(), or on the server's thread. Fails when the flavor has one already. Flavors without any
  // are accepted as they are: Service::check_credential() is asked.
  Expected<void, Error> accept_flavor(AuthFlavor flavor, ServerAuth& auth);

  // Hands all Calls that no service was added for to this one, as whole messages. It outlives the
  // server. Before run(), or on the server's thread. Fails when there is one already.
  Expected<void, Error> serve_messages(MessageService& service);

  // Serves RDMA over a TCP connection of the application's, whose other end calls Client::adopt()
  // now; see there. The descriptor is the library's from now on, also when this fails: kUnsupported
  // without an rdma:// listener. On the server's thread.
  Expected<void, Error> adopt(int descriptor);

  // Registers memory for bulk results (RFC 5666 §7): those that lie all inside of it are registered
  // once for each connection that sends from it, not for each call. Like every memory of a service
  // that results are sent from, it outlives the server. Fails with kUnsupported when it is empty or
  // overlaps memory that is registered already.
  Expected<void, Error> register_read_only(Bytes memory);

  // "ADDR:PORT" of the first listener, with the real port; of unix:// the path.
  std::string_view address() const noexcept;
  // "tcp" without an rdma:// listener.
  std::string_view provider_name() const noexcept;

  // Serves until stop(), then drains: no new connections, calls in service are answered, each
  // connection is closed when its calls are done, and what is left after drain_timeout is cut, also
  // when a service has not answered: it must do so, or forget the context, before the server goes.
  // Without stop() it returns when failure() says something, no listener is left and the last
  // connection has ended.
  void run();
  // Makes run() drain and return. From any thread, and from a signal handler.
  void stop() noexcept;

  // Why a listener takes no more connections although the server was not stopped: the RDMA device
  // that it listens on, or the last one of a wildcard address, was removed. Connections that are
  // left are served to their end, and other listeners go on.
  const std::optional<Error>& failure() const noexcept;

  // For a foreign event loop: poll wait_fd() for reading, then call progress(), until drained() is
  // true: after stop(), or after failure() of the last listener.
  int wait_fd() const noexcept;
  void progress();
  bool drained() const noexcept;

  std::size_t connections() const noexcept;
  // Receives that are posted, over all connections; see ServerOptions::receives_max.
  std::size_t receives_posted() const noexcept;
  // Whether connections that are there receive out of one queue; see SharedReceives.
  bool shares_receives() const noexcept;
  std::size_t memory_in_use() const noexcept;  // bulk and message buffers lent to calls, bytes
  TransferCounters counters() const noexcept;

 private:
  friend class ServerImpl;
  explicit Server(std::unique_ptr<ServerImpl> impl) noexcept;
  std::unique_ptr<ServerImpl> impl_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_SERVER_H_
