#include "tools/server_stat.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/figures.h"
#include "tools/json.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

using Program = std::pair<std::string, std::string>;  // number and version

struct ProcedureLine {
  std::string name;
  double calls = 0, errors = 0, seconds = 0;
};

std::map<Program, std::vector<ProcedureLine>> procedures_of(const Figures& figures) {
  std::map<Program, std::vector<ProcedureLine>> found;
  const auto line_of = [&found](const Figure& figure) -> ProcedureLine& {
    auto& lines =
        found[{std::string(figure.label("program")), std::string(figure.label("version"))}];
    const auto line = std::ranges::find(lines, figure.label("procedure"), &ProcedureLine::name);
    if (line != lines.end()) return *line;
    lines.push_back({std::string(figure.label("procedure"))});
    return lines.back();
  };
  for (const Figure& each : figures.all()) {
    if (each.name == "calls_total") line_of(each).calls = each.value;
    if (each.name == "call_errors_total") line_of(each).errors = each.value;
    if (each.name == "call_duration_seconds_sum") line_of(each).seconds = each.value;
  }
  return found;
}

// Returns whether it is one of the server as a whole that `stat` lists by its name.
bool is_plain(const Figure& figure) {
  return figure.labels.empty() && !figure.name.ends_with("_sum") &&
         !figure.name.ends_with("_count");
}

// Returns the name that Linux has for it, without the suffix that Prometheus wants.
std::string plain_name(const Figure& figure) {
  constexpr std::string_view kSuffix = "_total";
  return figure.name.ends_with(kSuffix) ? figure.name.substr(0, figure.name.size() - kSuffix.size())
                                        : figure.name;
}

// Counts are whole numbers, which programs should see as such.
Json number_of(double value) {
  return value >= 0 && value < 1e15 && value == std::floor(value)
             ? Json(static_cast<unsigned long>(value))
             : Json(value);
}

std::string program_name(const Program& program) {
  static const std::map<std::string, const char*> kNames = {
      {"100003", "NFS"}, {"100005", "MOUNT"}, {"100021", "NLM"}, {"100000", "rpcbind"}};
  const auto found = kNames.find(program.first);
  return found == kNames.end() ? fmt::format("Program {} version {}", program.first, program.second)
                               : fmt::format("{} version {} (program {})", found->second,
                                             program.second, program.first);
}

void print_lines(const Figures& figures) {
  const Figure* const build = figures.first("build_info");
  if (build != nullptr) {
    fmt::print("Server rpcrdma {} over {}\n", build->label("version"), build->label("provider"));
  }
  for (const auto& [program, lines] : procedures_of(figures)) {
    double all = 0;
    for (const ProcedureLine& each : lines) all += each.calls;
    fmt::print("\n{}: {:.0f} calls\n", program_name(program), all);
    for (const ProcedureLine& each : lines) {
      fmt::print("  {:<16} {:>12.0f} {:>5.1f}%  errors {:<8.0f} avg {:.1f} us\n", each.name,
                 each.calls, all > 0 ? each.calls * 100 / all : 0, each.errors,
                 each.calls > 0 ? each.seconds / each.calls * 1e6 : 0);
    }
  }
  fmt::print("\nRefused calls:\n");
  for (const Figure& each : figures.all()) {
    if (each.name != "calls_refused_total") continue;
    fmt::print("  {:<28} {:.0f}\n", each.label("reason"), each.value);
  }
  if (figures.first("nfs_errors_total") != nullptr) fmt::print("\nErrors of NFS:\n");
  for (const Figure& each : figures.all()) {
    if (each.name != "nfs_errors_total") continue;
    fmt::print("  {:<16} {:<16} {:.0f}\n", each.label("procedure"), each.label("status"),
               each.value);
  }
  fmt::print("\nRPC over RDMA:\n");
  for (const Figure& each : figures.all()) {
    if (is_plain(each)) fmt::print("  {:<28} {:.0f}\n", plain_name(each), each.value);
  }
}

Json json_of(const Figures& figures) {
  Json procedures = Json::array();
  for (const auto& [program, lines] : procedures_of(figures)) {
    for (const ProcedureLine& each : lines) {
      procedures.push_back({{"program", program.first},
                            {"version", program.second},
                            {"procedure", each.name},
                            {"calls", number_of(each.calls)},
                            {"errors", number_of(each.errors)},
                            {"seconds", each.seconds}});
    }
  }
  Json all = {{"procedures", procedures}};
  Json errors = Json::array();
  Json refused = Json::object();
  for (const Figure& each : figures.all()) {
    if (each.name == "calls_refused_total")
      refused.set(each.label("reason"), number_of(each.value));
    if (each.name == "nfs_errors_total") {
      errors.push_back({{"procedure", each.label("procedure")},
                        {"status", each.label("status")},
                        {"calls", number_of(each.value)}});
    }
    if (is_plain(each)) all.set(plain_name(each), number_of(each.value));
  }
  all.set("nfs_errors", errors);
  all.set("calls_refused", refused);
  return all;
}

}  // namespace

bool names_server(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) return true;
  struct stat status {};
  return ::stat(word.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

void print_server_stat(const std::string& server, bool as_json) {
  const Figures figures = Figures::of(server);
  as_json ? print_json(json_of(figures)) : print_lines(figures);
}

}  // namespace rpcrdma::tools
