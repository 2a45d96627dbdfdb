// Makes RPC Calls to a server over RDMA.
//
//   auto client = rpcrdma::Client::connect("rdma://192.0.2.1");
//   auto call = client->prepare({kProgram, kVersion, kGet});
//   call->arguments().xdr().string("name");
//   call->place_result(buffer);                        // bulk data lands here, without a copy
//   auto reply = client->call(std::move(*call));
//   auto data = reply->decode(
//       [](rpcrdma::MessageReader& results) { return results.bulk(1 << 20, "data"); });
//   if (!data) return data.error();                    // the server sent something else
//
// Threads: a client and all objects obtained from it belong to one thread, that of its first use
// behind connect(), or behind a move to somebody else. A library that was built without NDEBUG ends
// a program that breaks this.
#ifndef RPCRDMA_CLIENT_H_
#define RPCRDMA_CLIENT_H_

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "rpcrdma/call.h"
#include "rpcrdma/characteristics.h"
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

// The awaiter of `co_await client.call_async(...)`; see rpcrdma/coroutine.h. It lives in the
// coroutine's frame, which must exist until the call has ended: the destructor ends the program
// while the call is outstanding.
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
  // socket unix:///PATH. Blocks until the connection is up or ProviderOptions::setup_timeout_client
  // has passed.
  //
  // Several servers of the same service stand behind each other, as in rdma://A,B:20050: the client
  // connects to the first that answers, and ClientOptions::reconnect tries the next one after each
  // failure. All addresses of a name are such servers. With RPCSEC_GSS, name the target
  // (gss::ClientSecurity::target), which is the first server's otherwise.
  //
  // Over tcp:// and unix:// (records, RFC 5531 §11) the same calls are made. Bulk items travel in
  // the stream, and are copied to their places when the reply is read. RDMA-only features fail with
  // kUnsupported: memory that stays registered, and calls from the server.
  static Expected<Client, Error> connect(std::string_view url, const ClientOptions& options = {});
  // Begins to connect to the first address and returns at once, for an event loop with other work.
  // progress() continues until connected(), or until ended(); prepare() then fails with the reason.
  static Expected<Client, Error> begin_connect(std::string_view url,
                                               const ClientOptions& options = {});
  // The same over the application's own RDMA stack or a test double (rpcrdma/provider.h), which the
  // client then owns. The address is passed to the provider unchanged, and ProviderOptions are
  // ignored. Fails as its connect() does, and with kUnsupported if there is no provider.
  static Expected<Client, Error> connect(std::unique_ptr<rdma::Provider> provider,
                                         std::string_view address,
                                         const ClientOptions& options = {});
  static Expected<Client, Error> begin_connect(std::unique_ptr<rdma::Provider> provider,
                                               std::string_view address,
                                               const ClientOptions& options = {});
  // Continues on an existing TCP connection of the application after both upper layers have agreed
  // to step up (RFC 5666 §3): after the last byte that either side has sent or will read, such as
  // between two record-marked messages. The server calls Server::adopt(). Blocks as connect() does.
  // The library owns the descriptor from now on, even if this fails. There is no reconnection.
  static Expected<Client, Error> adopt(int descriptor, ClientOptions options = {});
  // The same for the connection of this tcp:// client, once the server has agreed in its answer to
  // a call (CallContext::step_up() on its side). The new client continues after that answer, and
  // this client has ended, even if RDMA cannot be set up. Fails with kUnsupported, and changes
  // nothing, while calls are outstanding, if the server has sent anything after its answers, and
  // for a client that is not a tcp:// client.
  Expected<Client, Error> step_up(ClientOptions options = {});
  // Returns a client for calls to the client that made this Call, in the reverse direction over the
  // same connection (RFC 8167). Call it only after the upper layer has said that the peer accepts
  // calls; both sides must have set `backward_calls`. There is at most one at a time per
  // connection.
  //
  // It belongs to the server's thread and is driven by the server's progress(). start() and
  // call_async() work, also inside services; call() fails; progress(), wait() and drain() do
  // nothing. Bulk items are copied into the message. Arguments and results are limited to one
  // message, unless the peer speaks version two and takes chunks (ClientOptions::backward_support):
  // then they are read and written by it, and a call that times out may cost the connection, when
  // the peer finds that it may no longer do so. When the connection ends, its calls end and no more
  // can be made, unless BackwardOptions::outlives_connection is set. The client may outlive the
  // server. Once the connection is gone, it has no wait_fd() (-1) and no provider_name(). Fails
  // with kUnsupported for a context that the application created itself.
  static Expected<Client, Error> backward(const CallContext& context,
                                          const BackwardOptions& options = {});
  // For a backward client with outlives_connection whose connection is lost: continues over the
  // connection of this call. The upper layer must first have said on that connection that the peer,
  // which must be the same one, accepts calls again. Waiting calls are made again with the same
  // XID, so that the peer can tell which calls it has executed. Fails with kUnsupported if this
  // client has a connection, or that connection has a client.
  Expected<void, Error> resume(const CallContext& context);
  Client(Client&&) noexcept;
  Client& operator=(Client&& other) noexcept;
  // Ends outstanding calls with kCanceled, then closes. Must not run inside its own callbacks.
  ~Client();

  // Takes a slot for a call. `arguments_size_max` bounds the XDR arguments without bulk items, in
  // bytes. Fails with kTooManyCalls, kNoResources or kConnectionLost.
  Expected<Call, Error> prepare(const Procedure& procedure,
                                std::uint32_t arguments_size_max = 2048);

  // The same for a Call that is encoded elsewhere: arguments() takes the whole message, starting
  // with its XID, and sends it unchanged (MessageWriter::lend() and bulk_fixed() take it by
  // reference). The message is sent once:
  // it fails when its connection is lost, even where other calls are repeated. expect_results()
  // bounds the whole Reply. results() of the Reply starts at its XID; the caller must interpret it,
  // including refusals. `size_max` bounds what is written in place, in bytes.
  //
  // Starting it fails with kBadArguments if the message does not begin as a Call does (RFC 5531
  // §9), or has the XID of another outstanding call.
  Expected<Call, Error> prepare_message(std::uint32_t size_max = 2048);

  // The call that tells the server to forget the security context of this client (RFC 2203 §5.4),
  // without arguments and results; kSecurity: there is none. The next call makes another one. Who
  // goes without it leaves the context to the server until it runs out.
  Expected<Call, Error> prepare_log_out();
  // Makes this call and blocks until it has ended, 5 s at most; does nothing without a context.
  void log_out();

  // Makes the call and waits for its end. Meanwhile other calls proceed (their callbacks run).
  Expected<Reply, Error> call(Call call);

  // Starts the call. The callback runs exactly once, inside progress(), start(), call() or the
  // destructor, and must not throw. All lent memory returns to the caller before it runs. If the
  // call cannot be started, start() returns the error and the callback does not run.
  Expected<void, Error> start(Call call, ReplyCallback callback);

  // The same in a coroutine: `auto reply = co_await client.call_async(std::move(*call))` yields the
  // result of call(). The coroutine resumes where the callback would have run, or at once if the
  // call cannot be started. Nothing is allocated.
  CallAwaiter call_async(Call call) noexcept;

  // For a foreign event loop: poll wait_fd() for reading, then call progress(). wait() does the
  // polling.
  int wait_fd() const noexcept;
  void progress();
  void wait();

  // Waits until no call is outstanding; callbacks may still make new ones.
  void drain();
  // Ends the connection; outstanding calls end with kCanceled.
  void close() noexcept;

  bool connected() const noexcept;
  bool ended() const noexcept;  // permanently: refused, lost or closed
  std::uint32_t calls_in_flight() const noexcept;
  std::string_view provider_name() const noexcept;
  std::string_view peer_address() const noexcept;
  // The version of RPC-over-RDMA of this connection: 1 or 2; 0 without a connection, and over
  // tcp:// and unix://.
  std::uint32_t protocol_version() const noexcept;
  // What both sides have said about themselves; nullopt unless protocol_version() is 2.
  std::optional<ConnectionCharacteristics> characteristics() const noexcept;
  // Version two: asks the server for Receives of `size` bytes, `delay` from now. If the server
  // grants it, messages up to that size go inline; if it is smaller, they already do not from the
  // request on. `callback` reports the outcome, also when the connection ends first (kLost); the
  // client's destructor runs it too. Fails with kUnsupported on a connection that is not of version
  // 2, and while another such request is under way.
  Expected<void, Error> request_receive_size(std::uint32_t size, ChangeCallback callback,
                                             std::chrono::nanoseconds delay = {});
  // Version two: raises the size of this side's Receives, at most 65536 bytes, and reports it to
  // the server as soon as no smaller one is posted; characteristics() then shows it. Replies up to
  // that size come inline if the server's own Receives are as large. For this connection only. A
  // report takes a credit, so that nothing is reported while the server grants a single one.
  // Fails with kUnsupported, and with kNoResources while it is being raised or if it would not
  // grow.
  Expected<void, Error> raise_receive_size(std::uint32_t size);
  // The same requests for characteristics of ClientOptions::characteristics, whose values are as
  // XDR encodes them; and this side's own, which is reported to the server. It fails as above,
  // and for a value that is none of the type. For this connection only.
  Expected<void, Error> request_characteristic(std::uint32_t id, Bytes value,
                                               ChangeCallback callback,
                                               std::chrono::nanoseconds delay = {});
  Expected<void, Error> set_characteristic(std::uint32_t id, Bytes value);
  // Of the server, as it said last; nullopt: there is no such type, or no connection of version
  // two.
  std::optional<std::vector<std::byte>> peer_characteristic(std::uint32_t id) const;
  // Returns the terms of the connection; the version and the credits are those of the last reply.
  // nullopt without a connection, and over tcp:// and unix://, which negotiate nothing.
  std::optional<ConnectionTerms> terms() const noexcept;
  TransferCounters counters() const noexcept;

  // Registers memory for the lifetime of the result: bulk items and result places that lie entirely
  // inside it are not registered for each call. register_memory() serves both, register_read_only()
  // only bulk items. Fails with kUnsupported if the memory is empty or overlaps registered memory,
  // with kNoResources, and with kConnectionLost.
  Expected<RegisteredMemory, Error> register_memory(MutableBytes memory);
  Expected<RegisteredMemory, Error> register_read_only(Bytes memory);

  // Answers the server's calls over this connection (RFC 8167), and over those that reconnection
  // makes, up to ClientOptions::backward_calls at a time. The server may make no calls before the
  // upper layer has told it that this client is ready. The service outlives the client and runs
  // inside the client's progress(); none of its contexts may be used after the client is destroyed.
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version, Service& service);

  // Sends this credential with calls started from now on, and with calls repeated after the loss of
  // a connection (default AUTH_NONE). No effect if ClientOptions::auth seals the calls.
  void use_credential(const AuthSys& credential);

 private:
  friend class ClientImpl;
  explicit Client(std::unique_ptr<ClientImpl> impl) noexcept;
  ClientImpl& impl() const noexcept;
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CLIENT_H_
