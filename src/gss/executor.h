// The library's own threads for steps that would hold up a connection's thread.
#ifndef RPCRDMA_GSS_EXECUTOR_H_
#define RPCRDMA_GSS_EXECUTOR_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "posix/born_here.h"
#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

// Runs work on threads of its own, which start with the first piece of work; as many as the system
// gives, and if it gives none, on the thread that has the work. A child of fork() has none of its
// parent's threads: it gets its own with its first piece of work, and the work that the parent had
// is left to the parent.
class Workers : public Executor {
 public:
  explicit Workers(std::size_t threads);
  ~Workers() override;  // completes the work of this process that is left
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void submit(Work work) override;

 protected:
  // Starts a thread, or throws std::system_error.
  virtual std::thread start();
  void run();

 private:
  // The threads of one process, and their work. It is never destroyed in another process: a thread
  // of the parent may have held its mutex when the child was made.
  struct Pool {
    const posix::BornHere born{};
    Pool* before = nullptr;  // a parent's; kept so that leak checkers find it
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Work> queue;            // guarded by mutex
    bool stopping = false;             // guarded by mutex
    std::vector<std::thread> threads;  // guarded by mutex until they stop
  };

  Pool& pool();
  void start_all(Pool& pool) noexcept;

  const std::size_t count_;
  std::atomic<Pool*> pool_;  // that of this process, or of the parent until there is work
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_EXECUTOR_H_
