// Makes RPC Calls to a server over RDMA.
//
//   auto client = rpcrdma::Client::connect("rdma://192.0.2.1");
//   auto call = client->prepare({kProgram, kVersion, kGet});
//   call->arguments().xdr().string("name");
//   call->place_result(buffer);                        // bulk data lands here, without a copy
//   auto reply = client->call(std::move(*call));
//   rpcrdma::Bytes data = reply->results().bulk(1 << 20, "data");
//
// Threads: a client and all that it gave belong to one thread.
#ifndef RPCRDMA_CLIENT_H_
#define RPCRDMA_CLIENT_H_

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "rpcrdma/call.h"
#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/options.h"
#include "rpcrdma/registered_memory.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class CallContext;
class Client;
class ClientImpl;
class Service;
namespace rdma {
class Provider;
}  // namespace rdma

// What `co_await client.call_async(...)` waits with; see rpcrdma/coroutine.h. It lives in the
// coroutine's frame, which must stay until the call has ended: the destructor ends the program when
// the call is under way.
class [[nodiscard]] RPCRDMA_EXPORT CallAwaiter {
 public:
  CallAwaiter(const CallAwaiter&) = delete;
  CallAwaiter& operator=(const CallAwaiter&) = delete;
  ~CallAwaiter();

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> coroutine);
  Expected<Reply, Error> await_resume() { return std::move(*result_); }

 private:
  friend class Client;
  enum class Stage : std::uint8_t { kPrepared, kStarting, kUnderWay, kEnded };
  explicit CallAwaiter(Call&& call) noexcept : call_(std::move(call)) {}

  Call call_;
  std::coroutine_handle<> coroutine_;
  std::optional<Expected<Reply, Error>> result_;
  Stage stage_ = Stage::kPrepared;
};

class RPCRDMA_EXPORT Client {
 public:
  // Connects to rdma://HOST[:PORT] or tcp://HOST:PORT (IPv4, [IPv6] or a name), or to the Unix
  // socket unix:///PATH; blocks until the connection is up or
  // ProviderOptions::setup_timeout_client has passed.
  //
  // Over tcp:// and unix:// (records, RFC 5531 §11) the same calls are made. Bulk items stay in the
  // stream, so that results are in the reply and not in their places (Reply::land_results() copies
  // them), and what only RDMA has fails with kUnsupported: memory that stays registered, calls of
  // the server, and, for now, reconnection.
  static Expected<Client, Error> connect(std::string_view url, const ClientOptions& options = {});
  // Begins to connect, to the host's first address, and returns at once: for a loop that has other
  // things to do meanwhile. progress() goes on with it until connected(), or until ended(); what
  // prepare() fails with says why then.
  static Expected<Client, Error> begin_connect(std::string_view url,
                                               const ClientOptions& options = {});
  // The same over an RDMA stack of the application's, or a test double, which becomes the client's
  // (rpcrdma/provider.h). The address goes to the provider as it is, and ProviderOptions mean
  // nothing. Fails as its connect() does, and with kUnsupported when there is no provider.
  static Expected<Client, Error> connect(std::unique_ptr<rdma::Provider> provider,
                                         std::string_view address,
                                         const ClientOptions& options = {});
  static Expected<Client, Error> begin_connect(std::unique_ptr<rdma::Provider> provider,
                                               std::string_view address,
                                               const ClientOptions& options = {});
  // Goes on over a TCP connection of the application's, when the upper layers of both sides have
  // agreed to step up (RFC 5666 §3): behind the last byte that either has sent or is to read, such
  // as between two record-marked messages. The server's side is Server::adopt(). Blocks as
  // connect() does. The descriptor is the library's from now on, also when this fails; there is no
  // reconnection.
  static Expected<Client, Error> adopt(int descriptor, ClientOptions options = {});
  // The same for the connection of this tcp:// client, once the server has agreed by its answer to
  // a call (CallContext::step_up() on its side): the new client goes on behind that answer. This
  // one has ended then, also when RDMA cannot be set up. Fails with kUnsupported, and changes
  // nothing, while calls are under way, when the server has sent something behind its answers, and
  // for a client that is not of tcp://.
  Expected<Client, Error> step_up(ClientOptions options = {});
  // A client of the client that made this Call: its own calls go the other way over the same
  // connection (RFC 8167). Only once the upper layer has said that the peer takes calls; both sides
  // have set `backward_calls`. One at a time for each connection.
  //
  // It belongs to the server's thread and is driven by the server's progress(): start() and
  // call_async() work, also inside of services; call() fails, progress(), wait() and drain() do
  // nothing. Arguments and results are as large as a message at most; bulk items are copied into
  // it. When the connection ends, so do its calls, and none can be made any more, unless
  // BackwardOptions::outlives_connection is set. It may outlive the server; once the connection has
  // gone there is no wait_fd() (-1) and no provider_name(). Fails with kUnsupported for a
  // context that the application has made itself.
  static Expected<Client, Error> backward(const CallContext& context,
                                          const BackwardOptions& options = {});
  // Of a backward client with outlives_connection, whose connection is lost: goes on over the
  // connection of this call, once the upper layer has said on it that the peer, which must be the
  // same one, takes calls again. Calls that wait are made again with the same XID, so that the peer
  // can tell that it has executed one. Fails with kUnsupported when this client has a connection,
  // or that connection has a client.
  Expected<void, Error> resume(const CallContext& context);
  Client(Client&&) noexcept;
  Client& operator=(Client&& other) noexcept;
  // Ends calls under way with kCanceled, then closes. Not from a callback of its own.
  ~Client();

  // Takes a slot for a call. `arguments_size_max` bounds the XDR arguments without bulk items,
  // bytes. Fails with kTooManyCalls, kNoResources or kConnectionLost.
  Expected<Call, Error> prepare(const Procedure& procedure,
                                std::uint32_t arguments_size_max = 2048);

  // The same for a Call that is encoded elsewhere: arguments() takes the whole message, from its
  // XID on, and none of it is changed (MessageWriter::lend() and bulk_fixed() take it by
  // reference). The message is sent once: when
  // its connection is lost it fails, also where others are made again. expect_results() bounds the
  // whole Reply. results() of the Reply stands at its XID: whatever the server said, also a
  // refusal, is left to the caller. `size_max` is of what is written in place, bytes.
  //
  // Fails when it is started, with kBadArguments, if what was written does not begin as a Call does
  // (RFC 5531 §9), or has the XID of another call under way.
  Expected<Call, Error> prepare_message(std::uint32_t size_max = 2048);

  // Makes the call and waits for its end, serving other calls meanwhile (their callbacks run).
  Expected<Reply, Error> call(Call call);

  // Starts the call. The callback runs exactly once, inside progress(), start(), call() or the
  // destructor, and must not throw; all lent memory is the caller's again before. If the call
  // cannot be started, the error comes back here and the callback does not run.
  Expected<void, Error> start(Call call, ReplyCallback callback);

  // The same in a coroutine: `auto reply = co_await client.call_async(std::move(*call))` gives what
  // call() gives. The coroutine goes on where the callback would have run; if the call cannot be
  // started, at once. Nothing is allocated.
  CallAwaiter call_async(Call call) noexcept;

  // For a foreign event loop: poll wait_fd() for reading, then call progress(). wait() does the
  // first.
  int wait_fd() const noexcept;
  void progress();
  void wait();

  // Waits until no call is under way; new ones may still be made by callbacks.
  void drain();
  // Ends the connection; calls under way end with kCanceled.
  void close() noexcept;

  bool connected() const noexcept;
  bool ended() const noexcept;  // refused, lost or closed: for good
  std::uint32_t calls_in_flight() const noexcept;
  std::string_view provider_name() const noexcept;
  std::string_view peer_address() const noexcept;
  TransferCounters counters() const noexcept;

  // Registers memory for as long as the result lives: bulk items and places of results that lie all
  // inside of it are not registered for each call. The first is for both, the second for bulk items
  // only. Fails with kUnsupported when it is empty or overlaps memory that is registered already,
  // with kNoResources, and with kConnectionLost.
  Expected<RegisteredMemory, Error> register_memory(MutableBytes memory);
  Expected<RegisteredMemory, Error> register_read_only(Bytes memory);

  // Answers calls of the server over this connection (RFC 8167), and over those that reconnection
  // makes; ClientOptions::backward_calls at a time. The server may make none before the upper layer
  // has told it that this client is ready. The service outlives the client and runs inside of the
  // client's progress(); no context of it may be used after the client.
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version, Service& service);

  // Sends this credential with the calls started from now on, and with those that are made again
  // after the loss of a connection (default AUTH_NONE). Without effect where ClientOptions::auth
  // says what calls are sealed with.
  void use_credential(const AuthSys& credential);

 private:
  friend class ClientImpl;
  explicit Client(std::unique_ptr<ClientImpl> impl) noexcept;
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CLIENT_H_
