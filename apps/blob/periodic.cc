#include "blob/periodic.h"

#include <utility>

namespace blob {

Periodic::Periodic(std::chrono::milliseconds pause, std::function<void()> work)
    : pause_(pause), work_(std::move(work)), thread_([this] { run(); }) {}

Periodic::~Periodic() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Periodic::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause_, [this] { return stopping_; })) {
    lock.unlock();
    work_();
    lock.lock();
  }
}

}  // namespace blob
