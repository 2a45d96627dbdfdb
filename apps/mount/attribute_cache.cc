#include "mount/attribute_cache.h"

#include <algorithm>

namespace mounts {
namespace {

thread_local std::uint64_t order = 0;

bool same(const nfs3::nfstime3& a, const nfs3::nfstime3& b) {
  return a.seconds == b.seconds && a.nseconds == b.nseconds;
}

bool is_later(const nfs3::nfstime3& a, const nfs3::nfstime3& b) {
  return a.seconds != b.seconds ? a.seconds > b.seconds : a.nseconds > b.nseconds;
}

// Returns whether the content, or the names of a directory, are those that they were.
bool is_unchanged(const nfs3::fattr3& before, const nfs3::fattr3& now) {
  return before.size == now.size && same(before.mtime, now.mtime) && same(before.ctime, now.ctime);
}

}  // namespace

AttributeCache::Point AttributeCache::now_in_order(Time now) noexcept {
  return {++order, now};
}

Clock::duration AttributeCache::left(Time now) const noexcept {
  if (!is_fresh_) return {};
  const bool is_directory = last_->type == nfs3::ftype3::NF3DIR;
  const auto least = is_directory ? time_outs_->directory_min : time_outs_->file_min;
  const auto most = is_directory ? time_outs_->directory_max : time_outs_->file_max;
  const Clock::duration time_out =
      std::max<Clock::duration>(least, std::min<Clock::duration>(most, asked_ - changed_));
  const auto end = asked_ + std::min<Clock::duration>(time_out, most);
  return end > now ? end - now : Clock::duration{};
}

const nfs3::fattr3* AttributeCache::fresh(Time now) const noexcept {
  return left(now) > Clock::duration{} ? &*last_ : nullptr;
}

void AttributeCache::keep(const nfs3::fattr3& found, bool is_own_change, Time asked) {
  const bool has_changed = !last_ || !is_unchanged(*last_, found);
  if (has_changed || is_own_change) changed_ = asked;
  if (last_ && has_changed && !is_own_change) ++version_;
  last_ = found;
  asked_ = asked;
  is_fresh_ = true;
}

bool AttributeCache::take(const nfs3::fattr3& found, Point begun) {
  if (is_overtaken(begun)) return false;
  const bool is_late = begun < newest_;
  if (last_ && begun < obtained_) {
    // Both calls were under way together. A server that took the later one first shows it by the
    // times of change: what is newest is unknown then, and the next one asks.
    const nfs3::fattr3& earlier = is_late ? found : *last_;
    const nfs3::fattr3& later = is_late ? *last_ : found;
    if (is_later(earlier.ctime, later.ctime)) {
      ++version_;
      expire();
      return false;
    }
  }
  if (is_late) return is_fresh_ && is_unchanged(*last_, found);
  keep(found, false, begun.time);
  newest_ = begun;
  obtained_ = next_in_order();
  return true;
}

std::uint64_t AttributeCache::version_shown(Point begun, const nfs3::fattr3* found) const noexcept {
  const bool is_same = found != nullptr && is_fresh_ && is_unchanged(*last_, *found);
  return begun >= newest_ || is_same ? version_ : kNoVersion;
}

AttributeCache::Point AttributeCache::begin_change(Time now) noexcept {
  ++changes_under_way_;
  last_change_ = now_in_order(now);
  is_fresh_ = false;
  return last_change_;
}

bool AttributeCache::end_change(const nfs3::wcc_data* change, Point begun) {
  --changes_under_way_;
  const bool was_alone = begun == last_change_ && changes_under_way_ == 0;
  last_change_ = next_in_order();
  const nfs3::fattr3* const after = change != nullptr ? change->after.attributes() : nullptr;
  const nfs3::wcc_attr* const before = change != nullptr ? change->before.attributes() : nullptr;
  const bool is_own = was_alone && before != nullptr && after != nullptr && last_ &&
                      before->size == last_->size && same(before->mtime, last_->mtime) &&
                      same(before->ctime, last_->ctime);
  if (!is_own) ++version_;
  if (was_alone && after != nullptr) {
    keep(*after, true, begun.time);
  } else {
    is_fresh_ = false;  // the order in which the server made our changes is unknown
  }
  return was_alone;
}

}  // namespace mounts
