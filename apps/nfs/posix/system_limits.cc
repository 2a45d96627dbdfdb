#include "nfs/posix/system_limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace nfs::posix {
namespace {

// Finds the last position at which a file may be: lseek(2) knows the file system's largest size,
// and changes nothing.
std::uint64_t size_max_of(const files::File& file) {
  const auto can_be_at = [&](std::uint64_t position) {
    return ::lseek(file.descriptor(), static_cast<off_t>(position), SEEK_SET) >= 0;
  };
  std::uint64_t good = 0, bad = std::numeric_limits<std::int64_t>::max();
  if (can_be_at(bad)) return bad;
  while (bad - good > 1) {
    const std::uint64_t middle = good + (bad - good) / 2;
    (can_be_at(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

FileSystemLimits limits_of(const files::File& directory) {
  FileSystemLimits limits;
  const files::File nameless("/proc/self/fd/" + std::to_string(directory.descriptor()),
                             O_TMPFILE | O_RDWR, 0600);
  if (nameless.is_open()) limits.size_max = size_max_of(nameless);
  // The library says this of a file system that it does not know; every one has more.
  constexpr long kUnknown = 127;
  const long links = ::fpathconf(directory.descriptor(), _PC_LINK_MAX);
  if (links > kUnknown) {
    limits.links_max = static_cast<std::uint32_t>(
        std::min<std::int64_t>(links, std::numeric_limits<std::uint32_t>::max()));
  }
  const long name = ::fpathconf(directory.descriptor(), _PC_NAME_MAX);
  if (name > 0) limits.name_max = std::min(static_cast<std::uint32_t>(name), limits.name_max);
  return limits;
}

}  // namespace nfs::posix
