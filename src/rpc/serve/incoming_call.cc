#include "rpc/serve/incoming_call.h"

#include <memory>

namespace rpcrdma::rpc {

// Puts the header of a successful reply in front; results of other statuses are not sent.
bool IncomingCall::reserve_results(std::uint32_t size_max) {
  const std::size_t header_size = is_whole_ ? 0 : oncrpc::kReplyHeaderSizeMax;
  const std::size_t size = header_size + std::size_t{size_max};
  if (results_buffer_.size() < size) {
    results_buffer_ = results_room(size);
    if (results_buffer_.empty()) return false;
  }
  std::construct_at(&results_, results_buffer_);
  if (!is_whole_) oncrpc::encode_reply({header_.xid, oncrpc::Accepted{}}, results_.xdr());
  return true;
}

void IncomingCall::succeed() {
  status_ = results_.ok() ? AcceptStatus::kSuccess : AcceptStatus::kSystemErr;
  handle_answered();
}

void IncomingCall::fail(AcceptStatus status) {
  status_ = status;
  handle_answered();
}

}  // namespace rpcrdma::rpc
