// Looks up Calls that must not be executed twice in the server's ReplyCache.
#ifndef RPCRDMA_RPC_SERVE_DUPLICATE_CALLS_H_
#define RPCRDMA_RPC_SERVE_DUPLICATE_CALLS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rpc/serve/incoming_call.h"
#include "rpc/serve/reply_cache.h"

namespace rpcrdma::rpc {

// Returns the host of "ADDR:PORT".
std::string host_of(std::string_view address);

// Returns a number of a call's arguments, the same whether its bulk items came in the message or by
// chunks: over another connection they may come the other way. `stream` begins at `position` of the
// whole message; `placed` are the items that are not in it.
std::uint64_t sum_of_arguments(Bytes stream, std::uint64_t position,
                               std::span<const MessageReader::Placed> placed) noexcept;

// Does so for the calls of one connection.
class DuplicateCalls {
 public:
  enum class Next : std::uint8_t {
    kExecute,  // the call is new
    kAnswer,   // it was executed before: its results are written again, and its status is set
    kWait,     // the same call is being executed: retry() when ReplyCache::ends() has changed
  };

  explicit DuplicateCalls(ReplyCache& cache) noexcept : cache_(cache) {}

  // Returns whether begin() must be asked before a call of a procedure is executed. `traits`: null
  // for NULL.
  bool concern(const ProcedureTraits* traits) const noexcept {
    return traits != nullptr && cache_.enabled() && !traits->is_idempotent;
  }
  // Looks an accepted call up whose arguments have not been read. `placed`: arguments that are not
  // in its message.
  Next begin(IncomingCall& call, std::string_view peer_address,
             std::span<const MessageReader::Placed> placed);
  // Looks a call up again. Precondition: it waits.
  Next retry(IncomingCall& call);

  // Keeps the results for duplicates. Called for each answer before it is sent, also when its
  // connection has gone meanwhile.
  void handle_answer(IncomingCall& call) {
    if (call.cache_key_) [[unlikely]]
      remember(call);
  }

  std::uint64_t cached_replies() const noexcept { return cached_replies_; }

 private:
  void remember(IncomingCall& call);
  Next replay(IncomingCall& call, const ReplyCache::Reply& reply);
  static bool copy_results(IncomingCall& call, const ReplyCache::Reply& reply);

  ReplyCache& cache_;
  std::uint64_t cached_replies_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_DUPLICATE_CALLS_H_
