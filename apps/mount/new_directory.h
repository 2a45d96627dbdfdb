// All names of a directory that this client has just made, so that it need not ask for those which
// the directory cannot have: whoever unpacks or builds a tree looks each name up before making it.
//
// Other clients may add names, which the directory's version shows. It does not show a name that
// came before the first attributes were read, so this is believed no longer than a name of which a
// lookup has said that there is none.
#ifndef RPCRDMA_MOUNT_NEW_DIRECTORY_H_
#define RPCRDMA_MOUNT_NEW_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "mount/attribute_cache.h"

namespace mounts {

class NewDirectory {
 public:
  // `version`: the directory's when it had no names; `end`: it is not believed any more.
  // `total`: all names of such directories, which outlives this.
  NewDirectory(std::uint64_t version, Time end, std::size_t& total)
      : version_(version), end_(end), total_(total) {}
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory() { total_ -= names_.size(); }

  // Returns whether this still says anything; `version` is the directory's. Else it can go.
  bool holds(std::uint64_t version, Time now) const noexcept {
    return version == version_ && now < end_;
  }
  Time end() const noexcept { return end_; }
  bool lacks(std::string_view name) const { return !names_.contains(name); }
  // Notes a name before the server is asked to make it. False: all such directories have `most`
  // names together, and this one says nothing any more.
  bool add(std::string_view name, std::size_t most) {
    if (total_ >= most) return false;
    if (names_.emplace(name).second) ++total_;
    return true;
  }

 private:
  const std::uint64_t version_;
  const Time end_;
  std::size_t& total_;
  std::set<std::string, std::less<>> names_;  // also those that were taken away again
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NEW_DIRECTORY_H_
