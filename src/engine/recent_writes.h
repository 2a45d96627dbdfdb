// Remembers the Calls of the newest RDMA Writes.
#ifndef RPCRDMA_ENGINE_RECENT_WRITES_H_
#define RPCRDMA_ENGINE_RECENT_WRITES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/slot_table.h"
#include "wire/segment.h"

namespace rpcrdma::engine {

// Over TCP a Write is complete when it is on its way, and so may be its Call: the peer's refusal
// comes later. Until then it can have sent as many Calls as it has credits, so that a few Writes
// for each are remembered. Memory is taken with the first Write.
class RecentWrites {
 public:
  static constexpr std::size_t kPerCredit = 4, kMax = 256;

  explicit RecentWrites(std::size_t credits) : max_(std::min(kPerCredit * credits, kMax)) {}

  void note(const wire::Segment& to, const SlotBase& slot) {
    const Write write{to, to_call_id(slot.index, slot.generation)};
    if (writes_.size() < max_) {
      writes_.reserve(max_);
      writes_.push_back(write);
    } else {
      writes_[next_] = write;
    }
    next_ = (next_ + 1) % max_;
  }

  // The Call of the newest Write that went to this place, whose length means nothing.
  std::optional<CallId> find(const wire::Segment& place) const {
    for (std::size_t left = writes_.size(), i = next_; left > 0; --left) {
      i = (i + max_ - 1) % max_;
      const Write& write = writes_[i];
      const bool is_hit =
          write.to.handle == place.handle && place.offset - write.to.offset <= write.to.length;
      if (is_hit) return write.call;
    }
    return std::nullopt;
  }

  // Returns the Call to which all of them belong; nullopt: they belong to several, or there are
  // none.
  std::optional<CallId> only_call() const {
    if (writes_.empty()) return std::nullopt;
    const CallId first = writes_.front().call;
    const bool is_only =
        std::ranges::all_of(writes_, [first](const Write& write) { return write.call == first; });
    return is_only ? std::optional(first) : std::nullopt;
  }

 private:
  struct Write {
    wire::Segment to;
    CallId call;
  };
  const std::size_t max_;
  std::vector<Write> writes_;
  std::size_t next_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_RECENT_WRITES_H_
