// Explains to users what went wrong between a client and its peer.
#ifndef RPCRDMA_RPC_CALL_PEER_ERRORS_H_
#define RPCRDMA_RPC_CALL_PEER_ERRORS_H_

#include <string>
#include <string_view>

#include "engine/types.h"
#include "rpc/call/call_sender.h"
#include "rpcrdma/error.h"
#include "rpcrdma/provider.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class PeerErrors {
 public:
  explicit PeerErrors(const rdma::Provider& provider) : provider_(&provider) {}

  const std::string& peer() const noexcept { return peer_; }
  void set_peer(std::string_view peer) { peer_ = std::string(peer); }
  // False: it has gone, or may have, and is not asked what can be done about an error.
  void set_provider_is_there(bool is_there) noexcept { asks_provider_ = is_there; }

  Error explain(const rdma::Error& error, std::string_view operation) const;
  // Explains the end of a call over the connection, which may be null.
  Error explain(engine::CallError error, const transport::Connection* connection) const;
  Error explain(const CallSender::Refusal& refusal) const;
  Error no_resources(std::string cause) const;
  Error unsupported(std::string operation, std::string cause) const;

 private:
  std::string remedy(const rdma::Error& error) const;

  const rdma::Provider* provider_;
  std::string peer_;
  bool asks_provider_ = true;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_PEER_ERRORS_H_
