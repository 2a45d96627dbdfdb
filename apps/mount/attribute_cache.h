// The attributes of one file or directory as a client of NFS keeps them, with the time-outs of
// nfs(5).
//
// A change by somebody else is seen at the latest when the time-out has passed: that is as long as
// nothing has changed, between a least and a greatest time. Changes by this client carry weak cache
// consistency data (RFC 1813 §2.6), which shows that nobody else changed the file in between.
// Everything else counts as a change elsewhere: data and names that were read before are void.
//
// Replies overtake each other, over several connections or inside a server, and may come late.
// Attributes count by where their calls began: those of an earlier call do not replace those of a
// later one, and all are as old as their call, since the server may have looked at once.
#ifndef RPCRDMA_MOUNT_ATTRIBUTE_CACHE_H_
#define RPCRDMA_MOUNT_ATTRIBUTE_CACHE_H_

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>

#include "nfs3.h"

namespace mounts {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// As in nfs(5); zero asks the server each time.
struct TimeOuts {
  std::chrono::milliseconds file_min{3'000}, file_max{60'000};
  std::chrono::milliseconds directory_min{30'000}, directory_max{60'000};
};

class AttributeCache {
 public:
  // A point in the order of all calls and changes of this thread, and its time.
  struct Point {
    std::uint64_t order = 0;
    Time time{};
    friend auto operator<=>(const Point&, const Point&) = default;
  };

  explicit AttributeCache(const TimeOuts& time_outs) noexcept : time_outs_(&time_outs) {}

  // Returns the attributes if they are fresh; null if the server has to be asked.
  const nfs3::fattr3* fresh(Time now) const noexcept;
  // Returns the attributes however old they are; null before the first.
  const nfs3::fattr3* last() const noexcept { return last_ ? &*last_ : nullptr; }
  // Returns for how long the attributes stay fresh.
  Clock::duration left(Time now) const noexcept;

  // Returns a new point behind all others, where a call begins.
  static Point now_in_order(Time now) noexcept;
  // Takes the attributes of a call that changed nothing and began at `begun`. Returns false for
  // attributes that are not kept: one of our changes, or a later call, may have overtaken them.
  bool take(const nfs3::fattr3& found, Point begun);
  // Returns the version whose names, or content, a reply shows that came with these attributes of
  // the file, if any; kNoVersion if a later call was answered before. take() comes first.
  std::uint64_t version_shown(Point begun, const nfs3::fattr3* found) const noexcept;

  // A call that changes the file begins. It ends with its consistency data, if it has any.
  Point begin_change(Time now) noexcept;
  // Returns whether no other change of ours was under way between the two.
  bool end_change(const nfs3::wcc_data* change, Point begun);
  // Returns whether one of our changes may be newer than the reply of a call that began there.
  bool is_overtaken(Point begun) const noexcept {
    return begun < last_change_ || changes_under_way_ > 0;
  }

  // Calls that have begun so far do not make the attributes fresh again.
  void expire() noexcept {
    is_fresh_ = false;
    newest_ = next_in_order();
  }
  // Grows with each change elsewhere, and with each of ours that may hide one.
  std::uint64_t version() const noexcept { return version_; }
  static constexpr std::uint64_t kNoVersion = UINT64_MAX;

 private:
  // Returns a point whose time does not count.
  static Point next_in_order() noexcept { return now_in_order({}); }
  // `asked`: when the call that brought them began.
  void keep(const nfs3::fattr3& found, bool is_own_change, Time asked);

  const TimeOuts* time_outs_;
  std::optional<nfs3::fattr3> last_;
  bool is_fresh_ = false;
  Time asked_{};         // when the call of the last ones began
  Time changed_{};       // the same of the first ones that showed the last change
  Point last_change_{};  // where our last change began or ended
  Point newest_{};       // attributes of calls that began before this are late
  Point obtained_{};     // where the last ones were taken
  std::uint64_t version_ = 0;
  std::uint32_t changes_under_way_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_ATTRIBUTE_CACHE_H_
