#include "nfs/back_end/workers.h"

#include <system_error>
#include <utility>

namespace nfs {

Workers::Workers(const Settings& settings) : settings_(settings) {
  threads_.reserve(settings.threads);
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

void Workers::start_for(std::size_t jobs) {
  if (busy_ + jobs <= running_ || running_ == settings_.threads) return;
  try {
    threads_.emplace_back([this] { run(); });
    ++running_;
  } catch (const std::system_error&) {  // too many threads; those that are there will do
  }
}

bool Workers::hangs_for(std::uint64_t host) const noexcept {
  const bool waits = busy_ == settings_.threads || !queue_.may_run(host);
  return waits && settings_.now() - last_step_ > settings_.patience;
}

std::unique_ptr<Job> Workers::add(std::unique_ptr<Job> job, std::uint64_t host) {
  // Nothing could begin or end before.
  if (busy_ == 0 && queue_.size() == 0) last_step_ = settings_.now();
  if (stopping_ || hangs_for(host)) return job;
  std::unique_ptr<Job> refused;
  if (queue_.size() >= settings_.queue_max) {
    refused = queue_.take_from_above(host);
    if (refused == nullptr) return job;
  }
  queue_.add(std::move(job), host, settings_.now());
  start_for(queue_.ready());
  if (running_ > 0) return refused;
  // The system gives no thread at all.
  return std::move(queue_.take_late(Clock::time_point::max()).front());
}

void Workers::submit(std::unique_ptr<Job> job, std::uint64_t host) {
  std::unique_ptr<Job> refused;
  bool takes_all = false;
  {
    const std::lock_guard lock(mutex_);
    refused = add(std::move(job), host);
    takes_all = queue_.ready() > waiting_;
  }
  if (refused != nullptr) refused->turn_away();
  wake_.notify_one();
  if (takes_all) clock_.notify_one();
}

void Workers::turn_late_away() {
  std::vector<std::unique_ptr<Job>> late;
  {
    const std::lock_guard lock(mutex_);
    late = queue_.take_late(settings_.now() - settings_.patience);
  }
  for (const std::unique_ptr<Job>& each : late) each->turn_away();
}

void Workers::every(std::chrono::milliseconds period, std::function<void()> tick) {
  {
    const std::lock_guard lock(mutex_);
    tick_ = std::move(tick);
    period_ = period;
    next_tick_ = Clock::now() + period;
    start_for(1);
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
    if (stopping_ || queue_.ready() > 0) return;
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
    if (queue_.ready() == 0) break;
    JobQueue::Taken taken = queue_.take();
    last_step_ = settings_.now();
    ++busy_;
    lock.unlock();
    taken.job->run();
    taken.job.reset();
    lock.lock();
    --busy_;
    last_step_ = settings_.now();
    queue_.end(taken.host);
  }
  if (--running_ == 0) ended_.notify_all();
}

}  // namespace nfs
