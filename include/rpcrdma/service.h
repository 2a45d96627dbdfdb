// What a program does with the Calls that come in.
#ifndef RPCRDMA_SERVICE_H_
#define RPCRDMA_SERVICE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "rpcrdma/export.h"
#include "rpcrdma/message.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class CallContext;
namespace rpc {
class Session;
Session* session_of(const CallContext& context) noexcept;
}  // namespace rpc

// What CallContext::step_up() says.
enum class StepUp : std::uint8_t {
  kNow,      // behind a successful answer to this Call the connection goes on as RDMA
  kAlready,  // it is RDMA
  // It cannot: over Unix sockets, in a server that listens at no rdma:// address or not by
  // "siwarp", while the server is stopping, or since the context is none of a server.
  kUnable,
};

// One Call that waits for its answer. It belongs to the server, which keeps it until exactly one of
// succeed() and fail() was called, also when the connection has ended meanwhile.
class RPCRDMA_EXPORT CallContext {
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

  // Steps up (RFC 5666 §3): asks that this tcp:// connection goes on as RPC over RDMA behind the
  // reply, for a procedure by which peers agree on that (docs/step_up.md). kNow binds the server
  // to it when succeed() ends the call, and nothing is changed by fail(). The peer must have no
  // other Call without its reply and must send nothing before it has this one, or else it loses its
  // connection. Only on the server's thread, before the answer.
  virtual StepUp step_up() { return StepUp::kUnable; }

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

// What the binding of a program (RFC 8166 §6) says about one procedure. rpcrdma-gen makes a table
// of them from the file (docs/idl.md).
struct ProcedureTraits {
  static constexpr std::uint64_t kNoBound = ~std::uint64_t{0};

  std::uint32_t number = 0;
  std::string_view name = {};  // static text, for messages
  // The largest bulk argument, bytes; 0: the procedure has none. A larger Read chunk is refused
  // before a byte of it is moved.
  std::uint32_t bulk_argument_size_max = 0;
  // The most that the results take in XDR, with their bulk items, bytes. kNoBound: that depends on
  // the arguments, or is not known.
  std::uint64_t results_size_max = kNoBound;
  // Whether it does no harm to execute a call twice. If it does, the server remembers replies, and
  // answers a call that a client makes again after a lost connection without executing it
  // (ServerOptions::reply_cache_entries).
  bool is_idempotent = true;
  // Profile::kRfc5666: whether results that fit nowhere else may be exposed for the client to read,
  // until it confirms that. RFC 5666 §5.2 leaves that to the upper layer, and NFS forbids it
  // (RFC 5667): unless the service permits it, the call fails instead.
  bool may_answer_by_read = false;
};

// The entry of a procedure in a table that is sorted by number; null: there is none.
constexpr const ProcedureTraits* find_traits(std::span<const ProcedureTraits> table,
                                             std::uint32_t procedure) noexcept {
  // Most programs number their procedures from 0 without a gap.
  if (procedure < table.size() && table[procedure].number == procedure) return &table[procedure];
  const auto found = std::ranges::lower_bound(table, procedure, {}, &ProcedureTraits::number);
  return found != table.end() && found->number == procedure ? &*found : nullptr;
}

// One version of one program. Called on the server's thread; it may answer at once or keep the
// context and answer later from a thread of its own. Procedure 0 (NULL) is answered by the server
// itself.
class RPCRDMA_EXPORT Service {
 public:
  virtual ~Service() = default;

  // The traits of a procedure, which live as long as the service; null: there is no such procedure,
  // and the caller gets PROC_UNAVAIL.
  virtual const ProcedureTraits* traits(std::uint32_t procedure) const noexcept = 0;
  // Whether a caller with this credential may call the procedure (never asked for NULL): kOk, or
  // why it is denied (AUTH_ERROR), before any bulk data moves.
  virtual AuthStatus check_credential(std::uint32_t /*procedure*/,
                                      const Credential& /*credential*/) const noexcept {
    return AuthStatus::kOk;
  }
  virtual void call(CallContext& context) = 0;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_SERVICE_H_
