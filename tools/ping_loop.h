// `rpcrdma ping` at intervals, until it has made its calls or is interrupted.
#ifndef RPCRDMA_TOOLS_PING_LOOP_H_
#define RPCRDMA_TOOLS_PING_LOOP_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rpcrdma/client.h"
#include "tools/command.h"
#include "tools/interrupt.h"

namespace rpcrdma::tools {

// Latencies of any number of calls: least, greatest and mean are exact; beyond kSamplesMax calls
// the quantiles are those of a random choice of them.
class LatencySamples {
 public:
  static constexpr std::size_t kSamplesMax = 100'000;

  void add(std::uint64_t time_ns);
  std::uint64_t count() const noexcept { return count_; }
  Latency latency();

 private:
  std::vector<std::uint64_t> chosen_ns_;
  std::uint64_t count_ = 0, least_ns_ = 0, greatest_ns_ = 0;
  double sum_ns_ = 0;
  std::minstd_rand random_;  // the same choice in each run
};

class PingLoop {
 public:
  struct Settings {
    Procedure procedure;
    std::uint64_t calls_max;  // 0: until it is interrupted
    std::chrono::nanoseconds interval;
    bool json;
  };

  // All outlive it.
  PingLoop(Client& client, const Settings& settings, const Interrupt& interrupt)
      : client_(client), settings_(settings), interrupt_(interrupt) {}

  // Makes a call at each interval and prints a line for each. Fails the command if the first one
  // says that no other can succeed.
  void run();
  // The calls that ended; those that an interrupt cut short are not among them.
  std::uint64_t calls() const noexcept { return samples_.count() + lost_; }
  std::uint64_t lost() const noexcept { return lost_; }
  LatencySamples& samples() noexcept { return samples_; }
  // The error of the last call that was lost, if any was.
  const std::optional<Error>& last_error() const noexcept { return last_error_; }

 private:
  using Clock = std::chrono::steady_clock;

  void make_call();
  void note_answer(Clock::time_point start);
  void note_loss(Error error);
  // Waits for the client's next event, for an interrupt, or until then.
  void wait(std::optional<Clock::time_point> until);

  Client& client_;
  const Settings settings_;
  const Interrupt& interrupt_;
  LatencySamples samples_;
  std::uint64_t lost_ = 0;
  std::optional<Error> last_error_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_PING_LOOP_H_
