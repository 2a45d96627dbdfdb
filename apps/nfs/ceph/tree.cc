#include "nfs/ceph/tree.h"

#include <algorithm>

namespace nfs::ceph {

Tree::Tree(Settings settings, std::unique_ptr<Session> session, const HandleMaker& maker)
    : settings_(std::move(settings)), maker_(maker), root_(session->root_handle()) {
  sessions_.push_front({std::move(session), 0});
}

Tree::Use Tree::session() {
  std::unique_lock lock(mutex_);
  if (sessions_.front().session->is_lost()) {
    if (is_mounting_) {
      mounted_.wait_for(lock, kWait, [this] { return !is_mounting_; });
    } else if (Clock::now() >= next_attempt_) {
      mount_anew(lock);
    }
    if (sessions_.front().session->is_lost()) return {};
  }
  Kept& current = sessions_.front();
  ++current.uses;
  return {*this, current};
}

void Tree::mount_anew(std::unique_lock<std::mutex>& lock) {
  is_mounting_ = true;
  lock.unlock();
  auto made = Session::open(settings_.session);
  // Another directory of that name is not what clients have handles of.
  const bool is_same = made && (*made)->root_handle() == root_;
  lock.lock();
  is_mounting_ = false;
  mounted_.notify_all();
  next_attempt_ = Clock::now() + kPause;
  if (!is_same) return;
  std::list<Kept> unused;
  if (sessions_.front().uses == 0) unused.splice(unused.end(), sessions_, sessions_.begin());
  sessions_.push_front({std::move(*made), 0});
  lock.unlock();
  unused.clear();  // which waits
  lock.lock();
}

void Tree::release(Kept& kept) noexcept {
  std::list<Kept> unused;
  const std::lock_guard lock(mutex_);
  if (--kept.uses > 0 || &kept == &sessions_.front()) return;
  const auto at = std::ranges::find_if(sessions_, [&](const Kept& each) { return &each == &kept; });
  unused.splice(unused.end(), sessions_, at);
}

}  // namespace nfs::ceph
