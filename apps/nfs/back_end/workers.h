// Threads for what may wait for a disk, or for another machine, with a bounded queue.
#ifndef RPCRDMA_NFS_BACK_END_WORKERS_H_
#define RPCRDMA_NFS_BACK_END_WORKERS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
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

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  const Settings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  // Guarded by mutex_.
  std::unique_ptr<Job> first_;
  Job* last_ = nullptr;
  std::size_t queued_ = 0;
  std::size_t running_ = 0;  // threads
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_WORKERS_H_
