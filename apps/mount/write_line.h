// The line in which the WRITEs of all files wait for a link, or for a server, that is slow.
//
// A server that takes some of them is not gone, however long a call waits for those before it. But
// one that takes WRITEs which began much later does not lack time for it: its file hangs. A server
// answers calls in another order than they came in, by their sizes, so that a little later is none.
#ifndef RPCRDMA_MOUNT_WRITE_LINE_H_
#define RPCRDMA_MOUNT_WRITE_LINE_H_

#include <algorithm>

#include "mount/attribute_cache.h"

namespace mounts {

class WriteLine {
 public:
  // `patience`: the time of a call.
  explicit WriteLine(Clock::duration patience) : much_(patience / 2) {}

  // The server took the bytes of a WRITE that has waited since then.
  void note_taken(Time begun, Time now) noexcept {
    latest_ = std::max(latest_, begun);
    last_taken_ = now;
  }
  // Returns whether a call that began then still waits for those before it.
  bool is_waiting(Time begun) const noexcept {
    return last_taken_ > begun && latest_ <= begun + much_;
  }
  // Returns when the server took bytes of any file the last time.
  Time last_taken() const noexcept { return last_taken_; }

 private:
  const Clock::duration much_;
  Time latest_{};  // since when the youngest WRITE has waited that the server took
  Time last_taken_{};
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_WRITE_LINE_H_
