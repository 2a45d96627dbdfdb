#include "nfs/ceph/tree.h"

#include <algorithm>

namespace nfs::ceph {

Tree::Tree(Settings settings, std::unique_ptr<Session> session, const HandleMaker& maker)
    : settings_(std::move(settings)),
      maker_(maker),
      root_(session->root_handle()),
      open_files_max_(settings_.session.open_files_max) {
  sessions_.push_front({std::move(session), 0});
}

Tree::Use Tree::session() {
  std::unique_lock lock(mutex_);
  const auto is_lost = [this] { return sessions_.front().session->is_lost(); };
  const Clock::time_point limit = Clock::now() + kWait;
  while (is_lost() && Clock::now() < limit) {
    if (is_mounting_) {
      mounted_.wait_until(lock, limit, [&] { return !is_mounting_; });
    } else if (Clock::now() >= next_attempt_) {
      mount_anew(lock);
    } else {
      mounted_.wait_until(lock, std::min(limit, next_attempt_), [&] { return is_mounting_; });
    }
  }
  return use_front();
}

Tree::Use Tree::current() {
  const std::lock_guard lock(mutex_);
  return use_front();
}

void Tree::set_open_files_max(std::size_t count) {
  const std::lock_guard lock(mutex_);
  open_files_max_ = count;
  sessions_.front().session->open_files().set_idle_max(count);
}

Tree::Use Tree::use_front() {
  Kept& front = sessions_.front();
  if (front.session->is_lost()) return {};
  ++front.uses;
  return {*this, front};
}

void Tree::mount_anew(std::unique_lock<std::mutex>& lock) {
  is_mounting_ = true;
  lock.unlock();
  auto made = Session::open(settings_.session);
  // Another directory of that name is not what clients have handles of.
  const bool is_same = made && (*made)->root_handle() == root_;
  const std::string why =
      !made      ? made.error()
      : !is_same ? "another directory has its name now, of which clients have no handles"
                 : "";
  std::list<Kept> unused;
  lock.lock();
  const Clock::time_point now = Clock::now();
  // Two gateways of one name end each other's sessions: ever more slowly, since the cluster
  // remembers each one that it has shut out.
  const bool is_soon = now - mounted_at_ < kLongLife;
  pause_ = is_same && is_soon ? std::min(2 * pause_, kPauseMax) : kPause;
  next_attempt_ = now + pause_;
  const bool is_told = std::exchange(last_failure_, why) == why;
  if (is_same) {
    mounted_at_ = now;
    if (sessions_.front().uses == 0) unused.splice(unused.end(), sessions_, sessions_.begin());
    sessions_.push_front({std::move(*made), 0});
    // The exports may have changed since the first session.
    sessions_.front().session->open_files().set_idle_max(open_files_max_);
  }
  is_mounting_ = false;
  mounted_.notify_all();
  lock.unlock();
  if (is_same) {
    report(std::string("the cluster had shut this gateway out; it has mounted anew") +
           (is_soon ? "; is there another gateway of its name (gateway=NAME)?" : ""));
  } else if (!is_told) {
    report("the cluster has shut this gateway out, and it cannot mount anew: " + why);
  }
  unused.clear();  // which waits
  lock.lock();
}

void Tree::report(const std::string& what) const {
  if (settings_.report) settings_.report(what);
}

void Tree::release(Kept& kept) noexcept {
  std::list<Kept> unused;
  const std::lock_guard lock(mutex_);
  if (--kept.uses > 0 || &kept == &sessions_.front()) return;
  const auto at = std::ranges::find_if(sessions_, [&](const Kept& each) { return &each == &kept; });
  unused.splice(unused.end(), sessions_, at);
}

}  // namespace nfs::ceph
