#include "blob/name_order.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

#include "blob/sha256.h"
#include "blob/store_files.h"

namespace blob {

// A digest, so that nobody can choose names that share a place and make a page too long.
std::uint64_t NameOrder::place_of(std::string_view name) {
  Sha256Stream stream;
  stream.add(std::as_bytes(std::span(name)));
  const blob_sum sum = stream.finish();
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < sizeof(place); ++i) {
    place = place << 8U | std::to_integer<std::uint64_t>(sum[i]);
  }
  return std::max<std::uint64_t>(place, 1);
}

void NameOrder::read(int directory) {
  struct stat status {};
  const bool is_known = ::fstat(directory, &status) == 0;
  const timespec& now = status.st_mtim;
  if (is_known && is_current_ && now.tv_sec == changed_.tv_sec && now.tv_nsec == changed_.tv_nsec) {
    return;
  }
  names_.clear();
  for (std::string& name : names_in(directory, ".")) {
    const std::uint64_t place = place_of(name);
    names_.push_back({place, std::move(name)});
  }
  std::ranges::sort(names_, {}, [](const Placed& each) { return std::tie(each.place, each.name); });
  changed_ = now;
  // A change in the same tick of the file system's clock would not be seen.
  constexpr std::time_t kTick_s = 2;
  is_current_ = is_known && std::time(nullptr) - now.tv_sec > kTick_s;
}

void NameOrder::forget() noexcept {
  names_ = {};
  is_current_ = false;
}

}  // namespace blob
