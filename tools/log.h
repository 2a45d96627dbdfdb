// The server's log: lines on standard error.
#ifndef RPCRDMA_TOOLS_LOG_H_
#define RPCRDMA_TOOLS_LOG_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "blob/log.h"
#include "tools/log_kinds.h"

namespace rpcrdma::tools {

enum class LogFormat : std::uint8_t {
  kText,     // "2026-11-22T05:28:37.123Z warning connections: 192.0.2.1:4711 …"
  kJson,     // an object a line: time, level, subsystem, kind, text, and left_out of a count
  kJournal,  // "<4>connections: 192.0.2.1:4711 …", which systemd reads; it adds the time
};

// Reads "text", "json", "journal" or "auto", which is kJournal if `descriptor` is the stream of the
// journal that JOURNAL_STREAM names (systemd.exec(5)), and else kText.
LogFormat log_format(std::string_view name, int descriptor = 2);

// Each kind of line has an allowance (log_kinds.h). Lines beyond it are left out and counted, as
// are lines that a full pipe does not take, since a server never waits for the reader of its log.
class StderrLog final : public blob::Log {
 public:
  using Time = std::chrono::system_clock::time_point;

  explicit StderrLog(const LogLevels& levels, LogFormat format = LogFormat::kText,
                     int descriptor = 2,
                     std::function<Time()> now = std::chrono::system_clock::now);
  ~StderrLog();

  // Writes a line, from any thread.
  void write(LogKind kind, std::string_view text);
  // Writes a line of the blob program.
  void write(blob::LogLevel level, std::string_view text) override;
  // Writes how many lines of each kind were left out, a minute after the first of them. Call it
  // about each second: the next line of that kind may come much later, or never.
  void report_left_out();
  // Writes the counts of lines that were left out so far, as the destructor does.
  void report_all_left_out();
  // Returns whether lines of this kind are written at all; from any thread.
  bool takes(LogKind kind) const noexcept;
  // Changes the levels, from any thread.
  void set_levels(const LogLevels& levels) noexcept;

 private:
  struct Allowance {
    LogRate rate;
    double lines;
    Time since;

    void fill(Time now);
  };
  struct LeftOut {
    std::uint64_t lines = 0;
    Time since{};  // the first of them
  };

  bool may_write(LogKind kind, Time now);
  void leave_out(LogKind kind, Time now);
  void put_left_out(LogKind kind, Time now);
  bool put(LogKind kind, std::string_view text, Time now, std::uint64_t left_out = 0) const;

  std::array<std::atomic<blob::LogLevel>, kSubsystems> levels_;
  const LogFormat format_;
  const int descriptor_;
  const std::function<Time()> now_;
  std::mutex mutex_;
  // Guarded by mutex_. Those by kind:
  std::array<Allowance, kLogKinds> allowances_;
  std::array<LeftOut, kLogKinds> left_out_{};
  Allowance shared_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_LOG_H_
