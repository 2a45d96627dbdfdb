// The library's own call with which some connections begin: it configures the connection (RFC 5666
// §6), or offers version two of RPC-over-RDMA (ADR 23).
#ifndef RPCRDMA_RPC_CALL_FIRST_CALL_H_
#define RPCRDMA_RPC_CALL_FIRST_CALL_H_

#include <cstdint>

#include "engine/types.h"
#include "rpc/call/call_flow.h"
#include "rpc/call/rdma_carrier.h"
#include "rpcrdma/call.h"
#include "rpcrdma/options.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

// The call has a slot of its own, since calls that wait for the connection may hold all others.
class FirstCall {
 public:
  static bool is_needed(const ClientOptions& options) noexcept {
    return options.connection.profile == Profile::kRfc5666 ||
           options.version != ProtocolVersion::kOne;
  }

  // All of them outlive it. An answer may narrow the versions in `options`, for the connections to
  // come.
  FirstCall(CallFlow& flow, RdmaCarrier& carrier, engine::Options& options) noexcept
      : flow_(flow), carrier_(carrier), options_(options) {}

  // There is a new connection, which takes calls at once unless it begins with this one.
  void use_connection(transport::Connection& connection) noexcept;
  bool is_due() const noexcept {
    return carrier_.use() == RdmaCarrier::Use::kNotYet && !is_sent_ && connection_->connected() &&
           flow_.calls().own_is_free();
  }
  // Sends it, or ends the connection.
  void send();

  // Returns whether the connection has ended because the server has version 1 only: it let the
  // offer pass, or ended the connection for it, and has never shown that it has both.
  bool is_refused() const noexcept;
  // Leaves the offer out from now on.
  void leave_out() noexcept { options_.versions = {1, 1}; }
  // The connection has ended. A server that has shown both versions may be busy, or may have been
  // replaced by one that has version 1 alone and lets offers pass in silence.
  void note_end() noexcept;

 private:
  using Use = RdmaCarrier::Use;

  bool is_rfc5666() const noexcept {
    return flow_.options().connection.profile == Profile::kRfc5666;
  }
  void configure();
  void offer_version();
  void send_prepared(ReplyCallback&& callback);
  void handle_configured(Expected<Reply, Error> reply);
  void handle_offered();
  bool is_offer_unanswered() const noexcept;

  CallFlow& flow_;
  RdmaCarrier& carrier_;
  engine::Options& options_;
  transport::Connection* connection_ = nullptr;
  bool is_sent_ = false;                 // over this connection
  bool has_version_two_ = false;         // the server has answered in it
  std::uint32_t unanswered_offers_ = 0;  // in a row, since it has
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_FIRST_CALL_H_
