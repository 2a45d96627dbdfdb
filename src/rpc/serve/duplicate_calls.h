// Calls that must not be executed twice: how a session uses the server's ReplyCache.
#ifndef RPCRDMA_RPC_SERVE_DUPLICATE_CALLS_H_
#define RPCRDMA_RPC_SERVE_DUPLICATE_CALLS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rpc/serve/incoming_call.h"
#include "rpc/serve/reply_cache.h"

namespace rpcrdma::rpc {

// The host of "ADDR:PORT".
std::string host_of(std::string_view address);

// Of one session.
class DuplicateCalls {
 public:
  enum class Next : std::uint8_t {
    kExecute,  // the call is new
    kAnswer,   // it was executed before: its results are written again, and its status is set
    kWait,     // the same call is being executed: retry() when ReplyCache::ends() has changed
  };

  explicit DuplicateCalls(ReplyCache& cache) noexcept : cache_(cache) {}

  // Whether begin() is to be asked before such a call is executed.
  // `traits`: of the procedure; null: NULL.
  bool concern(const ProcedureTraits* traits) const noexcept {
    return traits != nullptr && cache_.enabled() && !traits->is_idempotent;
  }
  // For an accepted call whose arguments have not been read; `placed`: those that are not in its
  // message.
  Next begin(IncomingCall& call, std::string_view peer_address,
             std::span<const MessageReader::Placed> placed);
  // Precondition: the call waits.
  Next retry(IncomingCall& call);

  // Before the results of any call are sent, and also when its connection has gone meanwhile.
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
