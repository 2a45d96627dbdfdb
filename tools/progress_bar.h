// How far a long transfer is, for a person who watches.
#ifndef RPCRDMA_TOOLS_PROGRESS_BAR_H_
#define RPCRDMA_TOOLS_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace rpcrdma::tools {

// A line on stderr: name, share, rate, remaining time. Only when stderr is a terminal, and not
// before the transfer has taken a second; it is wiped away at the end.
class ProgressBar {
 public:
  explicit ProgressBar(std::string name);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Cheap enough for every call: draws ten times a second. `total` of 0: unknown.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(const std::string& numbers);

  const std::string name_;
  const bool is_terminal_;
  const Clock::time_point start_;
  Clock::time_point next_;  // not drawn before
  bool drawn_ = false;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_PROGRESS_BAR_H_
