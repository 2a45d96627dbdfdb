// Requests of any kind: checks whether they may be posted, before anything of their batch is.
#ifndef RPCRDMA_RDMA_REQUEST_CHECK_H_
#define RPCRDMA_RDMA_REQUEST_CHECK_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "rdma/regions.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma {

// Has a function for each kind of request, for std::visit.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// `look_up(slices, slices_max, to_write)` returns whether there are no more slices than that, and
// all lie in attached memory with this right, std::true_type or std::false_type. It is called for
// the requests in their order.
template <class LookUp>
class RequestCheck {
 public:
  // `is_open`: the connection carries work in both directions.
  RequestCheck(const Capabilities& capabilities, bool is_open, LookUp look_up)
      : capabilities_(capabilities), is_open_(is_open), look_up_(std::move(look_up)) {}

  // Returns why the request cannot be posted; empty if it can.
  std::string_view fault_of(const work::Request& request) {
    return std::visit([this](const auto& work) { return this->fault(work); }, request.work);
  }

  // The requests that were checked.
  std::size_t receives = 0, sends = 0, exposures = 0, revokes = 0;  // sends: Writes and Reads, too

 private:
  std::string_view fault(const Receive& work) {
    ++receives;
    if (capabilities_.shares_receives) return "Receive of its own where they are shared";
    return look_up_(work.into, capabilities_.sge_max, std::true_type{})
               ? ""
               : "Receive into memory that is not attached, or in too many slices";
  }
  std::string_view fault(const Send& work) {
    ++sends;
    if (!is_open_) return "Send before the connection was there";
    if (work.invalidate && !capabilities_.send_with_invalidate) {
      return "Send with invalidation, which this queue pair cannot do";
    }
    return look_up_(work.from, kSlicesMax, std::false_type{})
               ? ""
               : "Send from memory that is not attached, or in too many slices";
  }
  std::string_view fault(const Read& work) {
    ++sends;
    if (!is_open_) return "Read before the connection was there";
    if (work.into.size != work.from.size) return "Read whose two sizes differ";
    return look_up_({&work.into, 1}, 1, std::true_type{}) ? ""
                                                          : "Read into memory that is not attached";
  }
  std::string_view fault(const Write& work) {
    ++sends;
    if (!is_open_) return "Write before the connection was there";
    if (!look_up_(work.from, capabilities_.sge_max, std::false_type{})) {
      return "Write from memory that is not attached, or in too many slices";
    }
    return total_size(work.from) == work.to.size ? "" : "Write whose two sizes differ";
  }
  std::string_view fault(const Expose& work) {
    ++exposures;
    const std::span<const Slice> slices(&work.memory, 1);
    const bool is_right = work.access == RemoteAccess::kWrite
                              ? look_up_(slices, 1, std::true_type{})
                              : look_up_(slices, 1, std::false_type{});
    return is_right ? "" : "Expose of memory that is not attached with this right";
  }
  std::string_view fault(const Revoke& /*work*/) {
    ++revokes;
    return {};
  }

  const Capabilities& capabilities_;
  const bool is_open_;
  LookUp look_up_;
};

}  // namespace rpcrdma::rdma

#endif  // RPCRDMA_RDMA_REQUEST_CHECK_H_
