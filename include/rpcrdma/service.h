// A program's handling of incoming Calls.
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

// The result of CallContext::step_up().
enum class StepUp : std::uint8_t {
  kNow,      // after a successful answer to this Call, the connection continues as RDMA
  kAlready,  // the connection is RDMA
  // Impossible: over Unix sockets, in a server without an rdma:// listener of "siwarp", while the
  // server is stopping, or because the context does not belong to a server.
  kUnable,
};

// One Call that waits for its answer. The server owns it and keeps it until exactly one of
// succeed() and fail() is called, even if the connection has ended meanwhile.
class RPCRDMA_EXPORT CallContext {
 public:
  virtual const Procedure& procedure() const noexcept = 0;
  virtual const Credential& credential() const noexcept = 0;
  // Returns the caller, as far as it is proved; see Server::secure().
  virtual Caller caller() const noexcept {
    return {.protection = Protection{static_cast<std::uint32_t>(credential().flavor)}};
  }
  virtual std::string_view peer_address() const noexcept = 0;
  // Returns the number of the connection, which no other one of this server has had: for a service
  // that keeps something for each. Peers at two listeners may have the same address. 0: the call
  // came in the reverse direction, or the context is not the library's.
  virtual std::uint64_t connection_number() const noexcept { return 0; }

  // The arguments in XDR; bulk() finds an item wherever it was placed. Views live until the answer.
  virtual MessageReader& arguments() noexcept = 0;

  // The results in XDR: up to 2 KiB, or the size given to reserve_results(). Bulk items are lent
  // until the server no longer needs them, so they must be result_memory() or outlive the server.
  // Nobody may change them after succeed(): the reply is sent from them, perhaps with a checksum
  // (RPCSEC_GSS integrity), which a changed item no longer matches.
  virtual MessageWriter& results() noexcept = 0;
  // Call the next two only on the server's thread, inside Service::call() or later, until the
  // answer. Restarts the results with room for `size_max` bytes. False: no memory.
  virtual bool reserve_results(std::uint32_t size_max) = 0;
  // Memory for a bulk result, kept until the reply is sent. Empty: no memory (answer kSystemErr).
  virtual MutableBytes result_memory(std::uint32_t size) = 0;

  // Steps up (RFC 5666 §3): requests that this tcp:// connection continue as RPC over RDMA after
  // the reply. It is for a procedure by which the peers agree on that (docs/step_up.md). After
  // kNow, succeed() commits the server to it; fail() changes nothing. The peer must have no other
  // unanswered Call and must send nothing before it has this reply, or it loses its connection.
  // Call only on the server's thread, before the answer.
  virtual StepUp step_up() { return StepUp::kUnable; }

  // End the call; the context is dead afterwards. Callable from any thread, also before call() has
  // returned. fail() takes kGarbageArgs, kSystemErr and kProcUnavail; succeed() sends the results.
  virtual void succeed() = 0;
  virtual void fail(AcceptStatus status) = 0;

 protected:
  virtual ~CallContext() = default;

 private:
  friend rpc::Session* rpc::session_of(const CallContext& context) noexcept;
  // The session that answers the connection of this call; null: the context is not the library's.
  virtual rpc::Session* session() const noexcept { return nullptr; }
};

// The binding (RFC 8166 §6) of one procedure. rpcrdma-gen generates a table of these from the .x
// file (docs/idl.md).
struct ProcedureTraits {
  static constexpr std::uint64_t kNoBound = ~std::uint64_t{0};

  std::uint32_t number = 0;
  std::string_view name = {};  // static text, for messages
  // The largest bulk argument, bytes; 0: the procedure has none. A larger Read chunk is refused
  // before a byte of it is moved.
  std::uint32_t bulk_argument_size_max = 0;
  // The number of bulk arguments at most, and the bytes that all of them may have together, without
  // their padding; kNoBound: as many as each may have. A Call with more Read chunks, or longer
  // ones, is refused before it gets memory, so that no client takes more of the server's than it
  // can use.
  std::uint32_t bulk_arguments_max = 1;
  std::uint64_t bulk_arguments_size_max = kNoBound;
  // The maximum size of the XDR results with their bulk items, bytes. kNoBound: it depends on the
  // arguments, or is unknown.
  std::uint64_t results_size_max = kNoBound;
  // True if executing a call twice is harmless. If not, the server remembers replies, and answers a
  // call that a client repeats after a lost connection without executing it
  // (ServerOptions::reply_cache_entries).
  bool is_idempotent = true;
  // Profile::kRfc5666: true if results that fit nowhere else may be exposed for the client to read,
  // until the client confirms. RFC 5666 §5.2 leaves this to the upper layer, and NFS forbids it
  // (RFC 5667). Unless the service permits it, the call fails instead.
  bool may_answer_by_read = false;
};

// Finds the entry of a procedure in a table sorted by number; null: there is none.
constexpr const ProcedureTraits* find_traits(std::span<const ProcedureTraits> table,
                                             std::uint32_t procedure) noexcept {
  // Most programs number their procedures from 0 without a gap.
  if (procedure < table.size() && table[procedure].number == procedure) return &table[procedure];
  const auto found = std::ranges::lower_bound(table, procedure, {}, &ProcedureTraits::number);
  return found != table.end() && found->number == procedure ? &*found : nullptr;
}

// One version of one program. Called on the server's thread; it may answer at once, or keep the
// context and answer later from its own thread. The server itself answers procedure 0 (NULL).
class RPCRDMA_EXPORT Service {
 public:
  virtual ~Service() = default;

  // The traits of a procedure, which live as long as the service; null: the procedure does not
  // exist, and the caller gets PROC_UNAVAIL.
  virtual const ProcedureTraits* traits(std::uint32_t procedure) const noexcept = 0;
  // The traits of all procedures, sorted by number, as far as the service has a table of them.
  // Server::add() refuses a service whose traits() of one of these have a bulk argument above
  // ServerOptions::bulk_size_max.
  virtual std::span<const ProcedureTraits> all_traits() const noexcept { return {}; }
  // Returns kOk if a caller with this credential may call the procedure, else the reason for
  // denying it (AUTH_ERROR). Called before any bulk data moves, never for NULL, and only for
  // flavors that the server checks: AUTH_NONE, AUTH_SYS and those of Server::accept_flavor().
  virtual AuthStatus check_credential(std::uint32_t /*procedure*/,
                                      const Credential& /*credential*/) const noexcept {
    return AuthStatus::kOk;
  }
  // An exception answers the Call with SYSTEM_ERR, unless it has been answered already: a service
  // that has passed the context on, to be answered later, must not throw any more.
  virtual void call(CallContext& context) = 0;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_SERVICE_H_
