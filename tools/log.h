// The server's log: lines on standard error.
#ifndef RPCRDMA_TOOLS_LOG_H_
#define RPCRDMA_TOOLS_LOG_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "blob/log.h"

namespace rpcrdma::tools {

// "2026-11-22T05:28:37.123Z warning 192.0.2.1:4711 …". Each level writes bursts of 100 lines and
// then 20 a second. Lines that are left out are counted and reported later, as are lines that a
// full pipe does not take, since a server never waits for the reader of its log.
class StderrLog final : public blob::Log {
 public:
  using Time = std::chrono::system_clock::time_point;

  explicit StderrLog(blob::LogLevel level, int descriptor = 2,
                     std::function<Time()> now = std::chrono::system_clock::now);
  ~StderrLog();

  void write(blob::LogLevel level, std::string_view text) override;
  // Changes the level, from any thread.
  void set_level(blob::LogLevel level) noexcept { level_ = level; }

 private:
  struct Allowance {
    double lines;
    Time since;
    std::uint64_t left_out = 0;
  };

  bool may_write(Allowance& allowance, Time now) const;
  bool put(blob::LogLevel level, std::string_view text, Time now) const;

  std::atomic<blob::LogLevel> level_;
  const int descriptor_;
  const std::function<Time()> now_;
  std::mutex mutex_;
  std::array<Allowance, 5> allowances_;  // by level; guarded by mutex_
};

// Writes a line that comes often, and means little, once a minute; the next one says how many were
// left out.
class RareLine {
 public:
  RareLine(StderrLog& log, blob::LogLevel level) : log_(log), level_(level) {}

  // Writes a line, from any thread. `now` is for tests.
  void write(std::string_view text,
             std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

 private:
  StderrLog& log_;
  const blob::LogLevel level_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<std::chrono::steady_clock::time_point> written_;
  std::uint64_t left_out_ = 0;
};

// Parses "none", "error", "warning", "info" or "debug".
blob::LogLevel log_level(std::string_view name);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_LOG_H_
