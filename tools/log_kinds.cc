#include "tools/log_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

using blob::LogLevel;
using enum Subsystem;
using enum LogKind;

constexpr std::array<std::string_view, 5> kLevelNames = {"none", "error", "warning", "info",
                                                         "debug"};
constexpr std::array<std::string_view, kSubsystems> kSubsystemNames = {
    "serve", "connections", "nfs", "blob", "security", "rpcbind", "calls"};

// Lines that this machine or its administrator causes: no peer can make them many.
constexpr LogRate kOwn = {60, 60, false};
// Lines that peers cause. Whatever the others do, two of a kind are written in a minute.
constexpr LogRate kOfPeers = {2, 2, true};
constexpr LogRate kRare = {1, 1, false};        // lines that come often, and mean little
constexpr LogRate kDebug = {100, 1200, false};  // somebody looks for something

// All kinds of peers together stay below 200 lines in any minute, with the lines that count those
// left out: LogTest.PeersCauseFewerThanTwoHundredLinesInAnyMinute.
constexpr std::array<LogKindFacts, kLogKinds> kFacts = {{
    {kState, kServe, LogLevel::kInfo, kOwn, "states of the server"},
    {kSetting, kServe, LogLevel::kWarning, kOwn, "settings"},
    {kFailure, kServe, LogLevel::kError, kOwn, "failures"},
    {kConnected, kConnections, LogLevel::kInfo, kOfPeers, "new connections"},
    {kConnectionDetail, kConnections, LogLevel::kDebug, kDebug, "details of connections"},
    {kConnectionRefused, kConnections, LogLevel::kWarning, kOfPeers, "refused connections"},
    {kConnectionLost, kConnections, LogLevel::kWarning, kOfPeers, "lost connections"},
    {kConnectionReset, kConnections, LogLevel::kInfo, kRare, "resets without a call under way"},
    {kVersionRefused, kConnections, LogLevel::kInfo, kOfPeers, "refused versions"},
    {kProtocolBroken, kConnections, LogLevel::kWarning, kOfPeers, "peers that broke the protocol"},
    {kMount, kNfs, LogLevel::kInfo, kOfPeers, "mounts and unmounts"},
    {kMountRefused, kNfs, LogLevel::kInfo, kOfPeers, "refused mounts"},
    {kCallDenied, kNfs, LogLevel::kInfo, kOfPeers, "denied calls"},
    {kFull, kNfs, LogLevel::kError, kOfPeers, "calls that found no space"},
    {kStorageFailed, kNfs, LogLevel::kError, kOfPeers, "calls that the storage failed"},
    {kExportReport, kNfs, LogLevel::kWarning, kOwn, "reports of exports"},
    {kExportNote, kNfs, LogLevel::kInfo, kRare, "notes about exports"},
    {kBlobChanged, kBlob, LogLevel::kInfo, kOfPeers, "changes of blobs"},
    {kBlobRefused, kBlob, LogLevel::kWarning, kOfPeers, "refused changes of blobs"},
    {kBlobFailed, kBlob, LogLevel::kError, kOfPeers, "failures of the storage of blobs"},
    {kBlobDetail, kBlob, LogLevel::kDebug, kDebug, "details of blobs"},
    {kContextRefused, kSecurity, LogLevel::kWarning, kOfPeers, "refused security contexts"},
    {kMappedToNobody, kSecurity, LogLevel::kInfo, kOfPeers, "principals that are mapped to nobody"},
    {kKeysMissing, kSecurity, LogLevel::kWarning, kOwn, "missing keys"},
    {kRegistrationFailed, kRpcbind, LogLevel::kWarning, kOwn, "failed registrations"},
    {kRegistrationLeft, kRpcbind, LogLevel::kError, kOwn, "registrations left behind"},
    {kCall, kCalls, LogLevel::kDebug, kDebug, "calls"},
}};

constexpr bool facts_are_in_order() {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (static_cast<std::size_t>(kFacts[i].kind) != i) return false;
  }
  return true;
}
static_assert(facts_are_in_order());

template <class Names>
std::string guess(std::string_view word, const Names& names) {
  const std::string near = nearest(word, {names.begin(), names.end()});
  return near.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", near);
}

template <class Names>
std::optional<std::size_t> index_in(const Names& names, std::string_view word) {
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

const LogKindFacts& facts_of(LogKind kind) noexcept {
  return kFacts[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Subsystem subsystem) noexcept {
  return kSubsystemNames[static_cast<std::size_t>(subsystem)];
}

std::string_view name_of(LogLevel level) noexcept {
  return kLevelNames[static_cast<std::size_t>(level)];
}

Expected<LogLevels, std::string> LogLevels::parse(std::string_view text) {
  std::optional<LogLevel> others;
  std::array<std::optional<LogLevel>, kSubsystems> own;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = text.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view item = text.substr(0, comma);
    if (!is_last) text.remove_prefix(comma + 1);
    const std::size_t sign = item.find('=');
    const bool is_own = sign != std::string_view::npos;
    const std::string_view word = is_own ? item.substr(sign + 1) : item;
    std::optional<LogLevel>* wanted = &others;
    if (is_own) {
      const std::string_view name = item.substr(0, sign);
      const auto index = index_in(kSubsystemNames, name);
      if (!index) {
        return Unexpected(fmt::format("takes SUBSYSTEM=LEVEL for {}, not '{}'{}",
                                      fmt::join(kSubsystemNames, ", "), item,
                                      guess(name, kSubsystemNames)));
      }
      wanted = &own[*index];
    }
    const auto level = index_in(kLevelNames, word);
    if (!level) {
      return Unexpected(fmt::format(
          "takes none, error, warning, info or debug, also of a subsystem as in info,nfs=debug, "
          "not '{}'{}",
          item, guess(word, kLevelNames)));
    }
    if (*wanted) {
      return Unexpected(fmt::format("takes one level for {}, and has '{}' as well",
                                    is_own ? item.substr(0, sign) : "the subsystems not named",
                                    item));
    }
    *wanted = static_cast<LogLevel>(*level);
  }
  LogLevels levels(others.value_or(LogLevel::kInfo));
  for (std::size_t i = 0; i < kSubsystems; ++i)
    levels.levels_[i] = own[i].value_or(levels.levels_[i]);
  return levels;
}

}  // namespace rpcrdma::tools
