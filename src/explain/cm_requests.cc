#include "explain/cm_requests.h"

namespace rpcrdma::explain {

void CmRequests::add(CmRequest request) {
  const Key key{request.from, request.message.local_id};
  take(key.first, key.second);
  if (by_age_.size() >= kMost) {
    const CmRequest& oldest = by_age_.front();
    take(oldest.from, oldest.message.local_id);
  }
  by_sender_.emplace(key, by_age_.insert(by_age_.end(), std::move(request)));
}

std::optional<CmRequest> CmRequests::take(const Endpoint& from, std::uint32_t id) {
  const auto at = by_sender_.find({from, id});
  if (at == by_sender_.end()) return std::nullopt;
  CmRequest taken = std::move(*at->second);
  by_age_.erase(at->second);
  by_sender_.erase(at);
  return taken;
}

}  // namespace rpcrdma::explain
