// Threads for what may wait for a disk, or for another machine, with a bounded queue.
#ifndef RPCRDMA_FILES_WORKERS_H_
#define RPCRDMA_FILES_WORKERS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "files/job_queue.h"

namespace files {

// A pool has threads for so many hosts that use all of theirs.
inline constexpr std::size_t kHostsAtATime = 4;

// A host has a part of the threads at most, so that others find one however long its jobs take.
//
// It hangs for a host that has all of its threads, or while all are busy, when none of these jobs
// has begun or ended for as long as the patience lasts: the storage behind it does not answer. Jobs
// that wait for it keep memory that others need, so that they are turned away, and clients
// ask again. Time in which this process itself was stopped proves nothing about the storage, and
// does not count.
class Workers {
 public:
  using Clock = JobQueue::Clock;

  struct Settings {
    std::size_t threads = 1;          // at most; each is started when a job finds the others busy
    std::size_t threads_of_host = 1;  // jobs of one host run at a time, at most
    std::size_t queue_max = 1;
    std::chrono::seconds patience{10};
    // While jobs of a host begin or end, its others wait for longer than the patience: a disk that
    // is slow fails nothing. For clients that do not ask again.
    bool waits_for_slow = false;
    void (*begin)() noexcept = nullptr;  // runs first on each thread
    Clock::time_point (*now)() noexcept = &Clock::now;
  };

  explicit Workers(const Settings& settings);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Does what is queued, and ends the threads. Nothing is taken any more. False: some are not done
  // at that time, and go on; the pool cannot be destroyed before they are.
  bool stop(Clock::time_point until) noexcept;
  // Runs the job on a thread, or turns it away at once. `host` names where it comes from: hosts
  // take turns, and while the queue is full the one that has most of it makes room.
  void submit(std::unique_ptr<Job> job, std::uint64_t host = 0);
  // Turns away what has waited for longer than the patience; with `waits_for_slow`, only where the
  // pool hangs as well. Call once a second or so, on a thread that is not the pool's: from the
  // first call on, the pool takes a longer silence for a stop of its process.
  void turn_late_away();
  // Calls `tick` once in a period, on one of the threads, until the pool stops; later where all of
  // them are busy. It keeps its thread from jobs, so that it waits for no disk, and submits what
  // does. In a pool whose one thread is for the tick, it may wait itself: jobs and stop() then wait
  // for it. Call once. Throws std::system_error where there is no thread, and the system gives
  // none.
  void every(std::chrono::milliseconds period, std::function<void()> tick);

 private:
  void run();
  // Waits until there is a job, or none will come; ticks meanwhile. One of the threads that wait
  // keeps the time, so that a tick wakes no more than that.
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  bool may_tick() const noexcept { return tick_ != nullptr && !is_ticking_ && !stopping_; }
  // Returns the clock's time without that of stops. The queue and last_step_ go by it.
  Clock::time_point own_time() noexcept;
  // Starts a thread if one of so many jobs would wait for it, and there may be more.
  void start_for(std::size_t jobs);
  // Returns whether a job of the host would wait, and for jobs that do not go on.
  bool hangs_for(std::uint64_t host, Clock::time_point now) const noexcept;
  bool hangs_for_all(Clock::time_point now) const noexcept {
    return busy_ == settings_.threads && now - last_step_ > settings_.patience;
  }
  // Adds the job. Returns what is turned away in its place: itself, or one of another host; null:
  // nothing is.
  std::unique_ptr<Job> add(std::unique_ptr<Job> job, std::uint64_t host);

  const Settings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;   // of those that do not keep the time
  std::condition_variable clock_;  // of the one that does
  std::condition_variable ended_;
  // Guarded by mutex_.
  JobQueue queue_{settings_.threads_of_host};
  std::size_t running_ = 0;        // threads
  std::size_t busy_ = 0;           // of them, with a job
  std::size_t waiting_ = 0;        // of them, for wake_
  Clock::time_point last_step_{};  // a job began or ended
  Clock::time_point last_seen_{};  // the last own_time()
  Clock::duration stopped_{};      // by which own_time() is behind the clock
  bool is_looked_at_ = false;      // by turn_late_away()
  bool has_timekeeper_ = false;
  bool is_ticking_ = false;
  std::function<void()> tick_;
  std::chrono::milliseconds period_{};
  Clock::time_point next_tick_{};
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace files

#endif  // RPCRDMA_FILES_WORKERS_H_
