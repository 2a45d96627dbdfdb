// Deadlines of many objects, each of which has one at a time or none. Setting one costs the
// logarithm of how many there are; the first is at hand.
#ifndef RPCRDMA_BASE_DEADLINE_HEAP_H_
#define RPCRDMA_BASE_DEADLINE_HEAP_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

// Keeps owners in the order of their deadlines. Owner derives from DeadlineHeap<Owner>::Entry, and
// must withdraw its deadline before it is destroyed.
template <class Owner>
class DeadlineHeap {
 public:
  class Entry {
   public:
    Deadline deadline() const noexcept {
      return place_ == kNone ? std::nullopt : std::optional(when_);
    }

   private:
    friend DeadlineHeap;
    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::size_t place_ = kNone;
    Instant when_{};
  };

  // Replaces its deadline; nullopt: it has none any more.
  void set(Owner& owner, Deadline when) {
    Entry& entry = owner;
    if (!when) return erase(entry);
    if (entry.place_ == Entry::kNone) {
      entry.when_ = *when;
      entry.place_ = owners_.size();
      owners_.push_back(&owner);
      return rise(entry.place_);
    }
    if (entry.when_ == *when) return;
    const bool is_earlier = *when < entry.when_;
    entry.when_ = *when;
    is_earlier ? rise(entry.place_) : sink(entry.place_);
  }
  Deadline first() const noexcept { return owners_.empty() ? std::nullopt : entry(0).deadline(); }
  // Takes the first whose deadline has come; null: there is none.
  Owner* take_due(Instant now) {
    if (owners_.empty() || entry(0).when_ > now) return nullptr;
    Owner* const owner = owners_.front();
    erase(*owner);
    return owner;
  }

 private:
  Entry& entry(std::size_t at) noexcept { return *owners_[at]; }
  const Entry& entry(std::size_t at) const noexcept { return *owners_[at]; }
  void erase(Entry& gone) {
    if (gone.place_ == Entry::kNone) return;
    const std::size_t at = std::exchange(gone.place_, Entry::kNone);
    Owner* const last = owners_.back();
    owners_.pop_back();
    if (at == owners_.size()) return;  // it was the last
    owners_[at] = last;
    entry(at).place_ = at;
    rise(at);
    sink(entry_of(last).place_);
  }
  static Entry& entry_of(Owner* owner) noexcept { return *owner; }
  void rise(std::size_t at) noexcept {
    for (; at > 0 && entry(at).when_ < entry((at - 1) / 2).when_; at = (at - 1) / 2) {
      exchange(at, (at - 1) / 2);
    }
  }
  void sink(std::size_t at) noexcept {
    for (;;) {
      std::size_t least = at;
      for (const std::size_t below : {2 * at + 1, 2 * at + 2}) {
        if (below < owners_.size() && entry(below).when_ < entry(least).when_) least = below;
      }
      if (least == at) return;
      exchange(at, least);
      at = least;
    }
  }
  void exchange(std::size_t a, std::size_t b) noexcept {
    std::swap(owners_[a], owners_[b]);
    std::swap(entry(a).place_, entry(b).place_);
  }

  std::vector<Owner*> owners_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_DEADLINE_HEAP_H_
