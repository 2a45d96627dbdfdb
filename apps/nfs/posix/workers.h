// Threads for what may wait for a disk, with a bounded queue.
#ifndef RPCRDMA_NFS_POSIX_WORKERS_H_
#define RPCRDMA_NFS_POSIX_WORKERS_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "rpcrdma/callback.h"

namespace nfs::posix {

// One piece of work. It is destroyed after it was run, or with the pool.
class Job {
 public:
  virtual ~Job() = default;
  virtual void run() = 0;

 private:
  friend class Workers;
  std::unique_ptr<Job> next_;
};

class Workers {
 public:
  // `begin` runs first on each thread.
  Workers(std::size_t threads, std::size_t queue_max, void (*begin)() noexcept);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Does what is queued, and ends the threads. Nothing is taken any more.
  void stop() noexcept;
  // Null: it was taken. Else it comes back: the queue is full.
  std::unique_ptr<Job> submit(std::unique_ptr<Job> job);

 private:
  void run();

  const std::size_t queue_max_;
  void (*const begin_)() noexcept;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::unique_ptr<Job> first_;
  Job* last_ = nullptr;
  std::size_t queued_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_WORKERS_H_
