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
  clock_.notify_all();
  return ended_.wait_until(lock, until, [this] { return running_ == 0; });
}

std::unique_ptr<Job> Workers::submit(std::unique_ptr<Job> job) {
  bool takes_all = false;
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
    takes_all = queued_ > waiting_;
  }
  wake_.notify_one();
  if (takes_all) clock_.notify_one();
  return nullptr;
}

void Workers::every(std::chrono::milliseconds period, std::function<void()> tick) {
  {
    const std::lock_guard lock(mutex_);
    tick_ = std::move(tick);
    period_ = period;
    next_tick_ = Clock::now() + period;
  }
  wake_.notify_one();
}

void Workers::wait_for_work(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (may_tick() && Clock::now() >= next_tick_) {
      is_ticking_ = true;
      lock.unlock();
      tick_();
      lock.lock();
      is_ticking_ = false;
      next_tick_ = Clock::now() + period_;
    }
    if (stopping_ || first_ != nullptr) return;
    if (may_tick() && !has_timekeeper_) {
      has_timekeeper_ = true;
      clock_.wait_until(lock, next_tick_);
      has_timekeeper_ = false;
    } else {
      ++waiting_;
      wake_.wait(lock);
      --waiting_;
    }
  }
}

void Workers::run() {
  if (settings_.begin != nullptr) settings_.begin();
  std::unique_lock lock(mutex_);
  for (;;) {
    wait_for_work(lock);
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
