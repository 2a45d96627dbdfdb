// Which slot an XID belongs to.
#ifndef RPCRDMA_ENGINE_XID_INDEX_H_
#define RPCRDMA_ENGINE_XID_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace rpcrdma::engine {

// Replies mostly come in the order of their Calls, and slots are taken in turn: the slot behind the
// last one found is tried first, so that a search is mostly one look.
class XidIndex {
 public:
  explicit XidIndex(std::size_t slots) : xids_(slots) {}

  void set(std::size_t slot, Xid xid) { xids_[slot] = xid; }
  // The first slot, from behind the last one found, that has this XID and of which `matches` is
  // true: what a slot had before stays until it is set anew.
  template <class Matches>
  std::optional<std::size_t> find(Xid xid, Matches&& matches) {
    std::size_t i = last_;
    for (std::size_t left = xids_.size(); left > 0; --left) {
      if (++i >= xids_.size()) i = 0;
      if (xids_[i] != xid || !matches(i)) continue;
      last_ = i;
      return i;
    }
    return std::nullopt;
  }

 private:
  std::vector<Xid> xids_;
  std::size_t last_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_XID_INDEX_H_
