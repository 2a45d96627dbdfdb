// Remembers the Calls of the newest RDMA Writes.
#ifndef RPCRDMA_ENGINE_RECENT_WRITES_H_
#define RPCRDMA_ENGINE_RECENT_WRITES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/newest.h"
#include "engine/slot_table.h"
#include "wire/segment.h"

namespace rpcrdma::engine {

// Over TCP a Write is complete when it is on its way, and so may be its Call: the peer's refusal
// comes later. Until then it can have sent as many Calls as it has credits, so that a few Writes
// for each are remembered. Memory is taken with the first Write.
class RecentWrites {
 public:
  static constexpr std::size_t kPerCredit = 4, kMax = 256;

  explicit RecentWrites(std::size_t credits) : writes_(std::min(kPerCredit * credits, kMax)) {}

  void note(const wire::Segment& to, const SlotBase& slot) {
    writes_.note({to, to_call_id(slot.index, slot.generation)});
  }

  // Returns the Call of the newest Write that went to this place, whose length means nothing.
  std::optional<CallId> find(const wire::Segment& place) const {
    const Write* const write = writes_.find([&place](const Write& each) {
      return each.to.handle == place.handle && place.offset - each.to.offset <= each.to.length;
    });
    return write != nullptr ? std::optional(write->call) : std::nullopt;
  }

  // Returns the Call to which all of them belong; nullopt: they belong to several, or there are
  // none.
  std::optional<CallId> only_call() const {
    const auto writes = writes_.all();
    if (writes.empty()) return std::nullopt;
    const CallId first = writes.front().call;
    const bool is_only =
        std::ranges::all_of(writes, [first](const Write& write) { return write.call == first; });
    return is_only ? std::optional(first) : std::nullopt;
  }

 private:
  struct Write {
    wire::Segment to;
    CallId call;
  };
  Newest<Write> writes_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_RECENT_WRITES_H_
