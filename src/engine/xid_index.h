// Maps XIDs to slots.
#ifndef RPCRDMA_ENGINE_XID_INDEX_H_
#define RPCRDMA_ENGINE_XID_INDEX_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace rpcrdma::engine {

// A hash table with a place for each slot: replies may come in any order.
class XidIndex {
 public:
  explicit XidIndex(std::size_t slots)
      : shift_(32U -
               static_cast<unsigned>(std::bit_width(2 * std::max<std::size_t>(slots, 1) - 1))),
        heads_(std::size_t{1} << (32U - shift_), kNone),
        entries_(slots) {}

  void set(std::size_t slot, Xid xid) {
    Entry& entry = entries_[slot];
    if (entry.is_listed) unlink(slot);
    std::uint16_t& head = heads_[bucket_of(xid)];
    entry = {xid, head, true};
    head = static_cast<std::uint16_t>(slot);
  }
  // A slot that has this XID and of which `matches` is true: what a slot had before stays until it
  // is set anew.
  template <class Matches>
  std::optional<std::size_t> find(Xid xid, Matches&& matches) const {
    for (std::uint16_t i = heads_[bucket_of(xid)]; i != kNone; i = entries_[i].next) {
      if (entries_[i].xid == xid && matches(std::size_t{i})) return i;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint16_t kNone = 0xffff;
  struct Entry {
    Xid xid{};
    std::uint16_t next = kNone;  // in the same bucket
    bool is_listed = false;
  };

  // XIDs that count up, and those in steps of any size, go to buckets of their own.
  std::size_t bucket_of(Xid xid) const noexcept {
    return (static_cast<std::uint32_t>(xid) * 0x9e3779b1U) >> shift_;
  }
  void unlink(std::size_t slot) noexcept {
    std::uint16_t* link = &heads_[bucket_of(entries_[slot].xid)];
    while (*link != slot) link = &entries_[*link].next;
    *link = entries_[slot].next;
  }

  const unsigned shift_;
  std::vector<std::uint16_t> heads_;  // the first slot of each bucket
  std::vector<Entry> entries_;        // by slot
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_XID_INDEX_H_
