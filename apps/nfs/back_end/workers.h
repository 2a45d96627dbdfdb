// Threads for what may wait for a disk, or for another machine, with a bounded queue.
#ifndef RPCRDMA_NFS_BACK_END_WORKERS_H_
#define RPCRDMA_NFS_BACK_END_WORKERS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nfs {

// One piece of work. It is destroyed after it was run, or with the pool.
class Job {
 public:
  virtual ~Job() = default;
  virtual void run() = 0;

 private:
  friend class Workers;
  std::unique_ptr<Job> next_;
  std::chrono::steady_clock::time_point queued_at_{};
};

class Workers {
 public:
  struct Settings {
    std::size_t threads = 1;
    std::size_t queue_max = 1;
    // When the first one in the queue has waited longer than this, no more are taken.
    std::chrono::seconds patience = std::chrono::hours(24);
    void (*begin)() noexcept = nullptr;  // runs first on each thread
  };

  explicit Workers(const Settings& settings);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Does what is queued, and ends the threads. Nothing is taken any more. False: some are not done
  // at that time, and go on; the pool cannot be destroyed before they are.
  bool stop(std::chrono::steady_clock::time_point until) noexcept;
  // Null: it was taken. Else it comes back: the queue is full, or hangs.
  std::unique_ptr<Job> submit(std::unique_ptr<Job> job);
  // Calls `tick` once in a period, on one of the threads, until the pool stops; later where all of
  // them are busy. It does not wait, and may submit what does. Call once.
  void every(std::chrono::milliseconds period, std::function<void()> tick);

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  // Waits until there is a job, or none will come; ticks meanwhile. One of the threads that wait
  // keeps the time, so that a tick wakes no more than that.
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  bool may_tick() const noexcept { return tick_ != nullptr && !is_ticking_ && !stopping_; }

  const Settings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;   // of those that do not keep the time
  std::condition_variable clock_;  // of the one that does
  std::condition_variable ended_;
  // Guarded by mutex_.
  std::unique_ptr<Job> first_;
  Job* last_ = nullptr;
  std::size_t queued_ = 0;
  std::size_t running_ = 0;  // threads
  std::size_t waiting_ = 0;  // for wake_
  bool has_timekeeper_ = false;
  bool is_ticking_ = false;
  std::function<void()> tick_;
  std::chrono::milliseconds period_{};
  Clock::time_point next_tick_{};
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_WORKERS_H_
