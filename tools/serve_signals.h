// The signals of `rpcrdma serve`: SIGTERM and SIGINT stop the server, SIGHUP has settings read
// again.
#ifndef RPCRDMA_TOOLS_SERVE_SIGNALS_H_
#define RPCRDMA_TOOLS_SERVE_SIGNALS_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "rpcrdma/server.h"

namespace rpcrdma::tools {

// Handles the signals of this process as long as it lives; there is one of these at a time.
class ServeSignals {
 public:
  // `reload` runs on a thread of this object, at each SIGHUP that comes while none is under way,
  // and `stopping` on another one when the server was asked to stop. The server outlives it.
  ServeSignals(Server& server, std::function<void()> reload, std::function<void()> stopping);
  // Waits for a reload that is under way.
  ~ServeSignals();
  ServeSignals(const ServeSignals&) = delete;
  ServeSignals& operator=(const ServeSignals&) = delete;

  // Returns whether the server was asked to stop. From any thread.
  static bool is_stopping() noexcept;
  // Begins no reload any more, and waits for one that is under way. False: it goes on at that time,
  // as one that waits for a name to resolve, and the process has to leave by _exit(2).
  bool end_reloads(std::chrono::steady_clock::time_point until);

 private:
  void run();
  void run_reloads();

  const std::function<void()> reload_, stopping_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool is_wanted_ = false;  // a reload
  bool is_under_way_ = false;
  bool is_over_ = false;
  std::thread thread_, reloader_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_SIGNALS_H_
