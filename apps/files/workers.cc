#include "files/workers.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace files {
namespace {

// Two periods of a pool that is looked at once a second: a look that is a little late is no stop.
constexpr std::chrono::seconds kLooksWithin{2};

}  // namespace

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

// Behind a stop of the process, whatever runs first would take its own absence for a disk that
// hangs, and turn away jobs that the disk would do at once.
Workers::Clock::time_point Workers::own_time() noexcept {
  const Clock::time_point time = settings_.now();
  if (is_looked_at_) stopped_ = std::max(stopped_, time - last_seen_ - kLooksWithin);
  last_seen_ = time - stopped_;
  return last_seen_;
}

bool Workers::hangs_for(std::uint64_t host, Clock::time_point now) const noexcept {
  // A host of which nothing runs waits for others, and its turn comes while these go on.
  const auto of_host =
      settings_.waits_for_slow ? queue_.runs_since(host) : queue_.waits_since(host);
  return (of_host && now - *of_host > settings_.patience) || hangs_for_all(now);
}

std::unique_ptr<Job> Workers::add(std::unique_ptr<Job> job, std::uint64_t host) {
  const Clock::time_point now = own_time();
  if (stopping_ || hangs_for(host, now)) return job;
  std::unique_ptr<Job> refused;
  if (queue_.size() >= settings_.queue_max) {
    refused = queue_.take_from_above(host);
    if (refused == nullptr) return job;
  }
  queue_.add(std::move(job), host, now);
  start_for(queue_.ready());
  if (running_ > 0) return refused;
  // The system gives no thread at all.
  return std::move(queue_.take_late(Clock::time_point::max()).front());
}

void Workers::submit(std::unique_ptr<Job> job, std::uint64_t host) {
  std::unique_ptr<Job> refused;
  bool is_ready = false, takes_all = false;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t before = queue_.ready();
    refused = add(std::move(job), host);
    is_ready = queue_.ready() > before;
    takes_all = queue_.ready() > waiting_;
  }
  if (refused != nullptr) refused->turn_away();
  if (!is_ready) return;
  wake_.notify_one();
  if (takes_all) clock_.notify_one();
}

void Workers::turn_late_away() {
  std::vector<std::unique_ptr<Job>> late;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = own_time();
    is_looked_at_ = true;
    const bool is_for_all = !settings_.waits_for_slow || hangs_for_all(now);
    late = queue_.take_late(now - settings_.patience,
                            is_for_all ? JobQueue::From::kAll : JobQueue::From::kThoseThatHang);
  }
  for (const std::unique_ptr<Job>& each : late) each->turn_away();
}

void Workers::every(std::chrono::milliseconds period, std::function<void()> tick) {
  {
    const std::lock_guard lock(mutex_);
    tick_ = std::move(tick);
    period_ = period;
    next_tick_ = Clock::now() + period;
    if (running_ == 0) {  // nobody would try again: a failure is the caller's
      threads_.emplace_back([this] { run(); });
      ++running_;
    }
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
    last_step_ = own_time();
    JobQueue::Taken taken = queue_.take(last_step_);
    ++busy_;
    lock.unlock();
    taken.job->run();
    taken.job.reset();
    lock.lock();
    --busy_;
    last_step_ = own_time();
    queue_.end(taken.host, last_step_);
  }
  if (--running_ == 0) ended_.notify_all();
}

}  // namespace files
