// The lines of the server's log: their subsystems, their kinds, and the levels that are written.
#ifndef RPCRDMA_TOOLS_LOG_KINDS_H_
#define RPCRDMA_TOOLS_LOG_KINDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "blob/log.h"
#include "rpcrdma/expected.h"

namespace rpcrdma::tools {

// The parts of the server that have a level each.
enum class Subsystem : std::uint8_t {
  kServe,
  kConnections,
  kNfs,
  kBlob,
  kSecurity,
  kRpcbind,
  kCalls
};
inline constexpr std::size_t kSubsystems = 7;

// The kinds of lines. A kind has its own allowance, so that one that a peer causes as often as it
// likes hides no other.
enum class LogKind : std::uint8_t {
  kState,
  kSetting,
  kFailure,
  kConnected,
  kConnectionDetail,
  kConnectionRefused,
  kConnectionLost,
  kConnectionReset,
  kVersionRefused,
  kProtocolBroken,
  kMount,
  kMountRefused,
  kCallDenied,
  kFull,
  kStorageFailed,
  kExportReport,
  kExportNote,
  kBlobChanged,
  kBlobRefused,
  kBlobFailed,
  kBlobDetail,
  kContextRefused,
  kMappedToNobody,
  kKeysMissing,
  kRegistrationFailed,
  kRegistrationLeft,
  kCall,
};
inline constexpr std::size_t kLogKinds = 27;

// How many lines of a kind are written: `at_once`, and then as many as come in with time.
struct LogRate {
  double at_once;
  double a_minute;
  bool may_share;  // takes from the common allowance first, and then from its own
};

// The common allowance of all kinds that peers cause.
inline constexpr LogRate kSharedRate = {40, 40, false};

struct LogKindFacts {
  LogKind kind;
  Subsystem subsystem;
  blob::LogLevel level;
  LogRate rate;
  const char* name;  // in the plural, for the line that counts those left out
};

const LogKindFacts& facts_of(LogKind kind) noexcept;
std::string_view name_of(Subsystem subsystem) noexcept;
std::string_view name_of(blob::LogLevel level) noexcept;

// The least urgent level that is written, of each subsystem.
class LogLevels {
 public:
  explicit LogLevels(blob::LogLevel all = blob::LogLevel::kInfo) { levels_.fill(all); }
  // Reads "LEVEL", "SUBSYSTEM=LEVEL", or several of them with commas between. A LEVEL alone is for
  // the subsystems that are not named; without one, they are at info. The error says what is wrong.
  static Expected<LogLevels, std::string> parse(std::string_view text);

  blob::LogLevel operator[](Subsystem subsystem) const noexcept {
    return levels_[static_cast<std::size_t>(subsystem)];
  }

 private:
  std::array<blob::LogLevel, kSubsystems> levels_{};
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_LOG_KINDS_H_
