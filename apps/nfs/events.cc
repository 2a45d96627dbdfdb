#include "nfs/events.h"

namespace nfs {

bool RecentNames::add(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (names_.contains(std::string(name))) return false;
  if (names_.size() >= kNamesMax) names_.clear();
  names_.emplace(name);
  return true;
}

}  // namespace nfs
