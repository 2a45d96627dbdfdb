// Shows the progress of a long transfer to a person who watches.
#ifndef RPCRDMA_TOOLS_PROGRESS_BAR_H_
#define RPCRDMA_TOOLS_PROGRESS_BAR_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace rpcrdma::tools {

// A line on stderr: name, share, rate, remaining time; and "waiting for PEER (12 s) ..." while
// nothing moves, unless the peer is empty. Only when stderr is a terminal, and not before the
// transfer has taken a second; it is wiped away at the end.
class ProgressBar {
 public:
  ProgressBar(std::string name, std::string peer);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Cheap enough for every call: draws ten times a second. `total` of 0: unknown.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(const std::string& numbers);
  // Looks each second whether anything has moved: whoever waits for a server makes no update().
  void watch();

  const std::string name_, peer_;
  const bool is_terminal_;
  const Clock::time_point start_;
  Clock::time_point next_;  // not drawn before
  bool drawn_ = false;
  // Guarded by mutex_, as is drawing.
  std::uint64_t done_ = 0;
  Clock::time_point moved_;
  bool has_ended_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  std::thread watcher_;  // last: it uses the rest
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_PROGRESS_BAR_H_
