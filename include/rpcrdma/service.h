// What a program does with the Calls that come in.
#ifndef RPCRDMA_SERVICE_H_
#define RPCRDMA_SERVICE_H_

#include <cstdint>
#include <string_view>

#include "rpcrdma/message.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class CallContext;
namespace rpc {
class Session;
Session* session_of(const CallContext& context) noexcept;
}  // namespace rpc

// One Call that waits for its answer. It belongs to the server, which keeps it until exactly one of
// succeed() and fail() was called, also when the connection has ended meanwhile.
class CallContext {
 public:
  virtual const Procedure& procedure() const noexcept = 0;
  virtual const Credential& credential() const noexcept = 0;
  virtual std::string_view peer_address() const noexcept = 0;

  // The arguments in XDR; bulk() finds an item wherever it was placed. Views live until the answer.
  virtual MessageReader& arguments() noexcept = 0;

  // The results in XDR; up to 2 KiB, or what reserve_results() made room for. Bulk items are lent
  // until the server no longer needs them, so they must be result_memory() or outlive the server.
  virtual MessageWriter& results() noexcept = 0;
  // The next two only on the server's thread, inside of Service::call() or later, until the answer.
  // Starts the results anew with room for `size_max` bytes. False: no memory.
  virtual bool reserve_results(std::uint32_t size_max) = 0;
  // Memory for a bulk result, kept until the reply is out. Empty: no memory (answer kSystemErr).
  virtual MutableBytes result_memory(std::uint32_t size) = 0;

  // End the call; the context is dead afterwards. From any thread, also before call() has returned.
  // fail() takes kGarbageArgs, kSystemErr and kProcUnavail; succeed() sends the results.
  virtual void succeed() = 0;
  virtual void fail(AcceptStatus status) = 0;

 protected:
  ~CallContext() = default;

 private:
  friend rpc::Session* rpc::session_of(const CallContext& context) noexcept;
  // What answers the connection that the call came by; null: it came by none of this library.
  virtual rpc::Session* session() const noexcept { return nullptr; }
};

// One version of one program. Called on the server's thread; it may answer at once or keep the
// context and answer later from a thread of its own. Procedure 0 (NULL) is answered by the server
// itself.
class Service {
 public:
  virtual ~Service() = default;

  // Whether the procedure exists; if not, the caller gets PROC_UNAVAIL.
  virtual bool has_procedure(std::uint32_t number) const noexcept = 0;
  // The largest bulk argument of the procedure, bytes; 0: it has none. A larger Read chunk is
  // refused before a byte of it is moved.
  virtual std::uint32_t bulk_argument_size_max(std::uint32_t procedure) const noexcept = 0;
  // Whether it does no harm to execute a call twice. If it does, the server remembers replies, and
  // answers a call that a client makes again after a lost connection without executing it
  // (ServerOptions::reply_cache_entries).
  virtual bool is_idempotent(std::uint32_t /*procedure*/) const noexcept { return true; }
  // Whether a caller with this credential may call the procedure (never asked for NULL): kOk, or
  // why it is denied (AUTH_ERROR), before any bulk data moves.
  virtual AuthStatus check_credential(std::uint32_t /*procedure*/,
                                      const Credential& /*credential*/) const noexcept {
    return AuthStatus::kOk;
  }
  // Profile::kRfc5666: whether results that fit nowhere else may be exposed for the client to read,
  // until it confirms that. RFC 5666 §5.2 leaves that to the upper layer, and NFS forbids it
  // (RFC 5667): unless the service permits it, the call fails instead.
  virtual bool may_answer_by_read(std::uint32_t /*procedure*/) const noexcept { return false; }
  virtual void call(CallContext& context) = 0;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_SERVICE_H_
