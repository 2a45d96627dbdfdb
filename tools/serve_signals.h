// The signals of `rpcrdma serve`: SIGTERM and SIGINT stop the server, SIGHUP has settings read
// again.
#ifndef RPCRDMA_TOOLS_SERVE_SIGNALS_H_
#define RPCRDMA_TOOLS_SERVE_SIGNALS_H_

#include <functional>
#include <thread>

#include "rpcrdma/server.h"

namespace rpcrdma::tools {

// Handles the signals of this process as long as it lives; there is one of these at a time.
class ServeSignals {
 public:
  // `reload` runs on a thread of this object, at each SIGHUP that comes while none is under way,
  // and `stopping` there when the server was asked to stop. The server outlives it.
  ServeSignals(Server& server, std::function<void()> reload, std::function<void()> stopping);
  // Waits for a reload that is under way.
  ~ServeSignals();
  ServeSignals(const ServeSignals&) = delete;
  ServeSignals& operator=(const ServeSignals&) = delete;

  // Returns whether the server was asked to stop. From any thread.
  static bool is_stopping() noexcept;

 private:
  void run();

  const std::function<void()> reload_, stopping_;
  std::thread thread_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_SIGNALS_H_
