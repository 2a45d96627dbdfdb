#include "rpc/call/peer_errors.h"

#include <utility>

#include "base/assert.h"
#include "rpc/errors.h"

namespace rpcrdma::rpc {

Error PeerErrors::explain(const rdma::Error& error, std::string_view operation) const {
  return to_error(error, operation, peer_, remedy(error));
}

Error PeerErrors::explain(engine::CallError error, const transport::Connection* connection) const {
  const bool is_over = error == engine::CallError::kConnectionLost && connection != nullptr;
  if (is_over && connection->engine().given_up() == engine::GivenUp::kNoVersion) {
    error = engine::CallError::kVersion;
  }
  const bool no_memory = error == engine::CallError::kNoMemory;
  rdma::Error reason{rdma::Errc::kClosed, 0, ""};
  if (connection != nullptr) {
    reason = no_memory ? connection->exposure_failure() : connection->cause();
  }
  const bool has_reason = no_memory || error == engine::CallError::kConnectionLost;
  return to_error(error, reason, peer_, has_reason ? remedy(reason) : std::string());
}

Error PeerErrors::explain(const CallSender::Refusal& refusal) const {
  switch (refusal.kind) {
    case CallSender::Refusal::Kind::kEngine:
      return to_error(refusal.error, peer_);
    case CallSender::Refusal::Kind::kNoRegistration:
      return no_resources("its memory cannot be registered");
    case CallSender::Refusal::Kind::kNoReplyMemory:
      return no_resources("ClientOptions::memory_max has no room for its reply");
  }
  RPCRDMA_ASSERT(false, "a refusal of no kind");
}

Error PeerErrors::no_resources(std::string cause) const {
  return {Errc::kNoResources, "starting the call", peer_, std::move(cause)};
}

Error PeerErrors::unsupported(std::string operation, std::string cause) const {
  return {Errc::kUnsupported, std::move(operation), peer_, std::move(cause)};
}

std::string PeerErrors::remedy(const rdma::Error& error) const {
  return asks_provider_ ? provider_->remedy(error) : std::string();
}

}  // namespace rpcrdma::rpc
