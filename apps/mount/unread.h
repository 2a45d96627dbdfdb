// Since when requests may have waited at the kernel because no buffer was free to read them into.
//
// A program whose request was not read can be killed, and its time does not run. But when buffers
// come back only because their bytes had no server, its request has waited for the same server, and
// has the rest of its time alone: else each round of buffers would take the whole time again.
#ifndef RPCRDMA_MOUNT_UNREAD_H_
#define RPCRDMA_MOUNT_UNREAD_H_

#include <optional>

#include "mount/attribute_cache.h"

namespace mounts {

class Unread {
 public:
  // There was no buffer.
  void note_none(Time now) {
    if (!since_) since_ = now;
  }
  // Nothing is left to be read.
  void note_all_read() { since_.reset(); }
  // Returns since when a request that was just read may have waited. `last_written`: when the
  // server took bytes the last time.
  Time begun(Time now, Time last_written) const {
    return since_ && last_written < *since_ ? *since_ : now;
  }

 private:
  std::optional<Time> since_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_UNREAD_H_
