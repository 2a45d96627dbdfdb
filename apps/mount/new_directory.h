// Keeps the names that a directory which this client has just made can have. The client need not
// ask for others: programs that unpack or build a tree look each name up before they make it.
//
// Other clients may add names, which the directory's version shows, but for those that came before
// the first attributes were read or in the same tick of the server's clock. So this is believed for
// a short time after each change of ours, and by the user who made the directory: for others the
// server may have another answer. It may also have names that nobody made (.snapshot), or take two
// spellings for one: names that begin with a dot or are not ASCII are always asked for, and case
// makes no difference.
#ifndef RPCRDMA_MOUNT_NEW_DIRECTORY_H_
#define RPCRDMA_MOUNT_NEW_DIRECTORY_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "mount/attribute_cache.h"

namespace mounts {

class NewDirectory {
 public:
  static constexpr Clock::duration kLife = std::chrono::seconds(3);

  // `version`: the directory's when it had no names. `life`: how long it is believed after `now`,
  // and after each name. `total`: all names of such directories, which outlives this.
  NewDirectory(std::uint64_t version, std::uint32_t uid, Clock::duration life, Time now,
               std::size_t& total)
      : version_(version), uid_(uid), life_(life), end_(now + life), total_(total) {}
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory() { total_ -= names_.size(); }

  // Returns whether this still says anything; `version` is the directory's. Else it can go.
  bool holds(std::uint64_t version, Time now) const noexcept {
    return version == version_ && now < end_;
  }
  Time end() const noexcept { return end_; }
  bool lacks(std::string_view name, std::uint32_t uid) const {
    return uid == uid_ && is_comparable(name) && !names_.contains(folded(name));
  }
  // Notes a name before the server is asked to make it. False: all such directories have `most`
  // names together, and this one says nothing any more.
  bool add(std::string_view name, Time now, std::size_t most) {
    if (total_ >= most) return false;
    end_ = now + life_;
    if (is_comparable(name) && names_.insert(folded(name)).second) ++total_;
    return true;
  }

 private:
  static bool is_comparable(std::string_view name) {
    const auto is_ascii = [](char each) { return static_cast<unsigned char>(each) < 128; };
    return !name.starts_with('.') && std::ranges::all_of(name, is_ascii);
  }
  static std::string folded(std::string_view name) {
    std::string made(name);
    for (char& each : made) {
      if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
    }
    return made;
  }

  const std::uint64_t version_;
  const std::uint32_t uid_;  // of the program that made it
  const Clock::duration life_;
  Time end_;
  std::size_t& total_;
  std::set<std::string> names_;  // also those that were taken away again
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NEW_DIRECTORY_H_
