#include "tools/serve_reload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include "tools/command.h"
#include "tools/serve_nfs.h"
#include "tools/serve_signals.h"
#include "tools/systemd.h"

namespace rpcrdma::tools {
namespace {

constexpr std::array<std::string_view, 4> kTaken = {"--nfs", "--export", "--exports",
                                                    "--log-level"};

// "--port" of "--port=20049".
std::string name_of(const std::string& word) {
  return word.substr(0, word.find('='));
}

}  // namespace

ServeReload::ServeReload(const ServeOptions& options, StderrLog& log, nfs::Exporter* exporter)
    : options_(options),
      log_(log),
      exporter_(exporter),
      has_kerberos_(exporter != nullptr && wants_kerberos(*exporter)) {}

void ServeReload::run() {
  systemd::report_reloading();
  ServeOptions again;
  Command program("rpcrdma", "");
  again.add_to(program.add_subcommand("serve", ""));
  std::string problem = program.read(options_.common.command->words());
  const QuietFailures quiet;  // the log has them
  try {
    if (problem.empty()) problem = take(again);
  } catch (const Exit& exit) {
    problem = exit.text;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (problem.empty()) {
    log_.write(LogKind::kState, "read the settings again");
  } else {
    log_.write(LogKind::kFailure,
               fmt::format("the settings were read again, and stay as they were: {}", problem));
  }
  if (ServeSignals::is_stopping()) return;  // which the manager knows already
  systemd::report_ready(problem.empty() ? "serving"
                                        : "serving; the last reload failed, see the log");
}

std::string ServeReload::take(ServeOptions& again) {
  // Before anything is taken: half of a file that no restart accepts would be served.
  again.finish();
  if (std::string problem = take_exports(again); !problem.empty()) return problem;
  log_.set_levels(*LogLevels::parse(again.log_level));
  note_others(again);
  return {};
}

std::string ServeReload::take_exports(const ServeOptions& again) {
  if (exporter_ == nullptr) {
    return again.nfs.is_wanted() ? "exports where there were none take a restart" : "";
  }
  if (!again.nfs.is_wanted()) return "no exports where there were some take a restart";
  NfsOptions wanted = again.nfs;
  wanted.is_read_only = options_.nfs.is_read_only;
  std::vector<nfs::Export> exports = exports_of(wanted, log_);
  // The mechanism is the server's from its beginning.
  if (!has_kerberos_ && takes_sys_alone(options_.nfs.security) && wants_kerberos(exports)) {
    return "an export wants Kerberos, which no export wanted at the start: that takes a restart";
  }
  auto notes = exporter_->set_exports(std::move(exports));
  if (!notes) return notes.error();
  for (const std::string& note : *notes) log_.write(LogKind::kSetting, note);
  return {};
}

void ServeReload::note_others(const ServeOptions& again) {
  const std::vector<std::string> before = options_.common.command->given();
  const std::vector<std::string> now = again.common.command->given();
  std::set<std::string> changed;
  const auto add_missing = [&changed](const auto& these, const auto& in) {
    for (const std::string& word : these) {
      if (std::ranges::count(in, word) == 0) changed.insert(name_of(word));
    }
  };
  add_missing(before, now);
  add_missing(now, before);
  for (const std::string_view each : kTaken) changed.erase(std::string(each));
  if (changed.empty()) return;
  log_.write(LogKind::kSetting,
             fmt::format("changed, and taken with the next restart: {}", fmt::join(changed, ", ")));
}

}  // namespace rpcrdma::tools
