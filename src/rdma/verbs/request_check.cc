#include "rdma/verbs/request_check.h"

#include <variant>

namespace rpcrdma::rdma::verbs {

std::string_view RequestCheck::fault_of_slices(std::span<const Slice> slices, bool to_write,
                                               std::size_t max) const {
  if (slices.size() > max) return "more slices than the device takes";
  Bytes readable;
  MutableBytes writable;
  for (const Slice& slice : slices) {
    const bool inside =
        to_write ? memory_.find_writable(slice, writable) : memory_.find_readable(slice, readable);
    if (!inside) return "work with memory that is not attached";
  }
  if (total_size(slices) > 0xffffffffU) return "work of 4 GiB or more";
  return {};
}

std::string_view RequestCheck::fault_of(const work::Request& request) {
  if (const auto* receive = std::get_if<Receive>(&request.work)) {
    ++receives_;
    if (capabilities_.shares_receives)
      return "a Receive of its own on a connection that shares them";
    return fault_of_slices(receive->into, true, capabilities_.sge_max);
  }
  if (const auto* expose = std::get_if<Expose>(&request.work)) {
    ++exposures_;
    return fault_of_slices({&expose->memory, 1}, expose->access == RemoteAccess::kWrite, 1);
  }
  if (std::holds_alternative<Revoke>(request.work)) return {};
  if (!is_open_) return "sending before the connection is there";
  if (const auto* send = std::get_if<Send>(&request.work)) {
    if (send->invalidate && !capabilities_.send_with_invalidate) {
      return "Send with Invalidate, which the device does not have";
    }
    return fault_of_slices(send->from, false, kSlicesMax);
  }
  if (const auto* read = std::get_if<Read>(&request.work)) {
    return fault_of_slices({&read->into, 1}, true, 1);
  }
  const auto& write = std::get<Write>(request.work);
  return fault_of_slices(write.from, false, capabilities_.sge_max);
}

}  // namespace rpcrdma::rdma::verbs
