// The events of an NFS server that its administrator may want to read in a log.
#ifndef RPCRDMA_NFS_EVENTS_H_
#define RPCRDMA_NFS_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace nfs {

enum class Event : std::uint8_t {
  kMount,           // a mount or an unmount
  kMountRefused,    // with the reason
  kCallDenied,      // the rules of an export do not let this client, or its protection, call
  kMappedToNobody,  // a principal that is no user of this machine; once in a while for each
  kFull,            // a call found no space, or its user's quota used up
  kStorageFailed,   // a call failed with an error of the disk
};

// Takes a sentence about an event, on any thread of the server or of a back end. As often as peers
// like: the owner limits what it writes.
using ReportEvent = std::function<void(Event, const std::string&)>;

// Remembers names for a while, so that each is reported once and not with each call.
class RecentNames {
 public:
  // Returns true if the name is new. Forgets all when there are kNamesMax.
  bool add(std::string_view name);

 private:
  static constexpr std::size_t kNamesMax = 256;  // peers choose them

  std::mutex mutex_;
  std::unordered_set<std::string> names_;  // guarded by mutex_
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_EVENTS_H_
