#include "nfs/ceph/idle_closer.h"

namespace nfs::ceph {

IdleCloser::IdleCloser(Tree& tree) : tree_(tree), thread_([this] { run(); }) {}

IdleCloser::~IdleCloser() {
  (void)stop(std::chrono::steady_clock::now());
  thread_.join();
}

bool IdleCloser::stop(std::chrono::steady_clock::time_point until) noexcept {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  news_.notify_all();
  return news_.wait_until(lock, until, [this] { return has_ended_; });
}

void IdleCloser::run() {
  std::unique_lock lock(mutex_);
  while (!news_.wait_for(lock, kPeriod, [this] { return stopping_; })) {
    lock.unlock();
    // Closing may wait for the cluster.
    if (const Tree::Use session = tree_.current()) (*session).open_files().close_idle();
    lock.lock();
  }
  has_ended_ = true;
  news_.notify_all();
}

}  // namespace nfs::ceph
