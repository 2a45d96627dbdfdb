#include "nfs/readiness.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "nfs/status_text.h"

namespace nfs {

// The answer may come before this returns, on this thread.
void Readiness::begin(Look& look, std::unique_lock<std::mutex>& lock) {
  look.begun = Clock::now();
  lock.unlock();
  look.served.files->check([this, &look](const nfs3::GETATTR3res& results) {
    const std::lock_guard guard(mutex_);
    look.begun.reset();
    look.answered = Clock::now();
    look.status = results.status();
    news_.notify_all();
  });
  lock.lock();
}

std::vector<Readiness::Look*> Readiness::looks_now() {
  std::vector<Look*> looks;
  exports_.read([&](const ExportList& exports) {
    for (const ExportList::Entry& each : exports.all()) {
      const auto found = std::ranges::find_if(
          looks_, [&each](const Look& look) { return &look.served == each.served; });
      looks.push_back(found != looks_.end() ? &*found : &looks_.emplace_back(*each.served));
    }
  });
  return looks;
}

std::string Readiness::why_not(std::chrono::milliseconds patience) {
  const Clock::time_point asked = Clock::now();
  std::unique_lock lock(mutex_);
  const std::vector<Look*> looks = looks_now();
  // An answer to an earlier question does as well when it comes now.
  const auto is_answered = [asked](const Look* look) { return look->answered >= asked; };
  for (Look* const look : looks) {
    if (!look->begun && !is_answered(look)) begin(*look, lock);
  }
  const auto all_are = [&] { return std::ranges::all_of(looks, is_answered); };
  (void)news_.wait_until(lock, asked + patience, all_are);
  std::string why;
  for (const Look* const each : looks) {
    const Look& look = *each;
    const bool is_late = !is_answered(each);
    if (!is_late && look.status == nfs3::nfsstat3::NFS3_OK) continue;
    const std::string& name = look.served.made.name;
    if (!why.empty()) why += "; ";
    if (is_late) {
      const auto waited = std::chrono::duration<double>(Clock::now() - look.begun.value_or(asked));
      why += fmt::format("the storage of {} has not answered for {:.1f} s", name, waited.count());
    } else {
      why += fmt::format("the directory of {} cannot be looked at: {}", name, to_text(look.status));
    }
  }
  return why;
}

}  // namespace nfs
