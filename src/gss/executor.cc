#include "gss/executor.h"

#include <system_error>
#include <utility>

#include "posix/foreign_signals.h"

namespace rpcrdma::gss {

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::thread Workers::start() {
  return std::thread([this] { run(); });
}

void Workers::start_all() noexcept {
  const posix::ForeignSignals foreign;
  try {
    while (threads_.size() < count_) threads_.push_back(start());
  } catch (const std::system_error&) {  // too many threads; those that are there will do
  }
}

void Workers::submit(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (threads_.size() < count_) start_all();
    if (!threads_.empty()) {
      queue_.push_back(std::move(work));
      wake_.notify_one();
      return;
    }
  }
  work();
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace rpcrdma::gss
