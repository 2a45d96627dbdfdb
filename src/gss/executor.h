// The library's own threads for steps that would hold up a connection's thread.
#ifndef RPCRDMA_GSS_EXECUTOR_H_
#define RPCRDMA_GSS_EXECUTOR_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

// Runs work on threads of its own, which start with the first piece of work; as many as the system
// gives, and if it gives none, on the thread that has the work.
class Workers : public Executor {
 public:
  explicit Workers(std::size_t threads) : count_(threads) {}
  ~Workers() override;  // completes the work that is left
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void submit(Work work) override;

 protected:
  // Starts a thread, or throws std::system_error.
  virtual std::thread start();
  void run();

 private:
  void start_all() noexcept;

  const std::size_t count_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;            // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_ until they stop
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_EXECUTOR_H_
