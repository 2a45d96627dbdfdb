#include "nfs/back_end/workers.h"

#include <utility>

namespace nfs {

Workers::Workers(const Settings& settings) : settings_(settings), running_(settings.threads) {
  threads_.reserve(settings.threads);
  for (std::size_t i = 0; i < settings.threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  (void)stop(Clock::now());
  for (std::thread& thread : threads_) thread.join();
}

bool Workers::stop(Clock::time_point until) noexcept {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
  return ended_.wait_until(lock, until, [this] { return running_ == 0; });
}

std::unique_ptr<Job> Workers::submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_ == settings_.queue_max || stopping_) return job;
    const Clock::time_point now = Clock::now();
    if (first_ != nullptr && now - first_->queued_at_ > settings_.patience) return job;
    job->queued_at_ = now;
    ++queued_;
    Job* const added = job.get();
    (last_ != nullptr ? last_->next_ : first_) = std::move(job);
    last_ = added;
  }
  wake_.notify_one();
  return nullptr;
}

void Workers::run() {
  if (settings_.begin != nullptr) settings_.begin();
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || first_ != nullptr; });
    if (first_ == nullptr) break;
    std::unique_ptr<Job> job = std::move(first_);
    first_ = std::move(job->next_);
    if (first_ == nullptr) last_ = nullptr;
    --queued_;
    lock.unlock();
    job->run();
    job.reset();
    lock.lock();
  }
  if (--running_ == 0) ended_.notify_all();
}

}  // namespace nfs
