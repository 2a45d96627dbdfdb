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
//
// After fork() the connection is the parent's. A child may destroy its copy of the client; it calls
// by it, or makes progress, only if the parent uses its own no more, and not over an RDMA device.
// With gss::ClientSecurity, no step of a call may be under way on another thread at the fork: when
// the child destroys its copy, as by exit(), it would wait for that thread of its parent for ever.
#ifndef RPCRDMA_CLIENT_H_
#define RPCRDMA_CLIENT_H_

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
#include "rpcrdma/terms.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class Backward;
class Client;
class ClientImpl;
class TakeOver;
class VersionTwo;
struct NoResult;
template <class R>
class ResultsAwaiter;
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

// The server to connect to, by implicit conversion: Client::connect("rdma://storage"). Borrows its
// texts.
class RPCRDMA_EXPORT Destination {
 public:
  // rdma://HOST[:PORT] or tcp://HOST:PORT (IPv4, [IPv6] or a name), or the Unix socket
  // unix:///PATH.
  //
  // Several servers of the same service stand behind each other, as in rdma://A,B:20050: the client
  // connects to the first that answers, and ClientOptions::reconnect tries the next one after each
  // failure. All addresses of a name are such servers. The RDMA device, or the software, is the one
  // that suits the first address. With RPCSEC_GSS, name the target
  // (gss::ClientSecurity::target), which is the first server's otherwise.
  //
  // Over tcp:// and unix:// (records, RFC 5531 §11) the same calls are made. Bulk items travel in
  // the stream, and are copied to their places when the reply is read. RDMA-only features fail with
  // kUnsupported: memory that stays registered, and calls from the server.
  Destination(std::string_view url) noexcept;
  Destination(const std::string& url) noexcept : Destination(std::string_view(url)) {}
  Destination(const char* url) noexcept : Destination(std::string_view(url)) {}
  // An address of the application's own RDMA stack or of a test double (rpcrdma/provider.h), which
  // the client then owns: Client::connect({std::move(provider), "here:1"}). The address is passed
  // to the provider unchanged, and ProviderOptions are ignored. Connecting fails as the provider's
  // connect() does, and with kUnsupported if there is no provider.
  Destination(std::unique_ptr<rdma::Provider> provider, std::string_view address) noexcept;
  Destination(Destination&& other) noexcept;
  ~Destination();

 private:
  friend class Client;
  std::string_view address_;
  bool is_of_provider_;
  std::unique_ptr<rdma::Provider> provider_;
};

// Says who a client's calls come from, see Client::identity(). For the client's thread; the client
// must outlive it.
class RPCRDMA_EXPORT ClientIdentity {
 public:
  // Sends this credential with calls started from now on, and with calls repeated after the loss of
  // a connection. No effect if ClientOptions::auth has an authenticator or RPCSEC_GSS.
  void use(const AuthSys& credential);
  // Prepares the call by which the server forgets the security context of this client (RFC 2203
  // §5.4), without arguments and results; kSecurity: there is none. The next call makes another
  // one. Without this call the server keeps the context until it expires. It times out after
  // ClientOptions::call_timeout, and after 5 s at the latest: nobody waits longer for a farewell.
  Expected<Call, Error> logout_call();
  // Makes this call and blocks until it has ended; does nothing without a context.
  void log_out();

 private:
  friend class Client;
  explicit ClientIdentity(ClientImpl& impl) noexcept : impl_(&impl) {}
  ClientImpl* impl_;
};

class RPCRDMA_EXPORT Client {
 public:
  // Blocks until the connection is up or ProviderOptions::setup_timeout_client has passed, for each
  // address.
  static Expected<Client, Error> connect(Destination to, const ClientOptions& options = {});
  // Begins to connect to the first address and returns at once, for an event loop with other work.
  // progress() continues until connected(), or until ended(); prepare() then fails with the reason.
  static Expected<Client, Error> begin_connect(Destination to, const ClientOptions& options = {});
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

  // The same in one expression, with rpcrdma/short_call.h:
  //
  //   auto data = client.call({kProgram, kVersion, kGet}, args("name"), into(buffer));
  //
  // Returns the results, or the first error of preparing, making and decoding the call. Arguments
  // are encoded before call_async() returns.
  template <class Arguments, class Results = NoResult>
  Expected<typename Results::Value, Error> call(const Procedure& procedure,
                                                const Arguments& arguments,
                                                const Results& results = {},
                                                const CallOptions& options = {});
  template <class Arguments, class Results = NoResult>
  ResultsAwaiter<typename Results::Value> call_async(const Procedure& procedure,
                                                     const Arguments& arguments,
                                                     const Results& results = {},
                                                     const CallOptions& options = {});

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
  // Returns what there is to know about the connection.
  ConnectionInfo connection() const noexcept;
  // Returns the characteristics of a connection of version two and requests to change them, see
  // rpcrdma/version_two.h. The result belongs to this client.
  VersionTwo version_two() const noexcept;
  TransferCounters counters() const noexcept;

  // Registers memory for the lifetime of the result: bulk items and result places that lie entirely
  // inside it are not registered for each call. register_memory() serves both, register_read_only()
  // only bulk items. Fails with kUnsupported if the memory is empty or overlaps registered memory,
  // with kNoResources, and with kConnectionLost.
  Expected<RegisteredMemory, Error> register_memory(MutableBytes memory);
  Expected<RegisteredMemory, Error> register_read_only(Bytes memory);

  // Returns who the calls come from, to change it. The result belongs to this client.
  ClientIdentity identity() const noexcept;

 private:
  friend class Backward;
  friend class ClientImpl;
  friend class TakeOver;
  explicit Client(std::unique_ptr<ClientImpl> impl) noexcept;
  ClientImpl& impl() const noexcept;
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CLIENT_H_
