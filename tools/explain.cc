#include "explain/explain.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/figures.h"
#include "tools/interrupt.h"
#include "tools/stat_socket.h"

namespace rpcrdma::tools {
namespace {

using explaining::View;

struct ExplainSettings {
  std::vector<std::string> words;
  std::string xid, procedure, peer, status, html, svg;
  std::string since, until, interface_file;
  double slower_than_ms = 0;
  std::string server;
  bool is_json = false;
};

constexpr std::array<std::pair<std::string_view, View>, 5> kViews{{{"calls", View::kCalls},
                                                                   {"ladder", View::kLadder},
                                                                   {"check", View::kCheck},
                                                                   {"summary", View::kSummary},
                                                                   {"frames", View::kFrames}}};

std::optional<double> seconds_of(const std::string& text, const char* option) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) {
    fail(kUsage, fmt::format("{} takes seconds from the first packet, not '{}'", option, text));
  }
  return value;
}

std::optional<std::uint32_t> xid_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const char* begin = text.data() + (text.starts_with("0x") ? 2 : 0);
  const char* end = text.data() + text.size();
  std::uint32_t value = 0;
  const auto [at, error] = std::from_chars(begin, end, value, 16);
  if (error != std::errc() || at != end) {
    fail(kUsage, fmt::format("--xid takes hexadecimal digits, not '{}'", text));
  }
  return value;
}

// The words are [VIEW] [SUBJECT] FILE, without FILE where a running server is looked at.
void read_words(const std::vector<std::string>& words, bool has_file,
                explaining::Settings& settings) {
  const std::size_t before = words.size() - (has_file ? 1 : 0);
  std::size_t next = 0;
  if (before > 0) {
    const auto view = std::find_if(kViews.begin(), kViews.end(),
                                   [&](const auto& each) { return each.first == words[0]; });
    if (view == kViews.end()) {
      fail(kUsage, fmt::format("explain shows calls, ladder, check, summary or frames, not '{}'",
                               words[0]));
    }
    settings.view = view->second;
    next = 1;
  }
  if (before > 1) {
    if (settings.view != View::kLadder) {
      fail(kUsage, fmt::format("only ladder has a subject; '{}' is one word too many", words[1]));
    }
    settings.subject = words[next++];
  }
  if (next < before) {
    fail(kUsage,
         fmt::format("'{}' is one word too many: --pid stands in place of the file", words[next]));
  }
  if (has_file) settings.file = words[next];
}

// Returns the socket at which a server shows its traffic; -1: the file is no socket.
int live_socket(const std::string& server, const std::string& file) {
  struct stat status {};
  const bool is_socket = ::stat(file.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  if (server.empty() && !is_socket) return -1;
  // Either socket of a server names it.
  const std::string named = is_socket ? file : stat_socket_of(server);
  const std::string path = named.ends_with(".sock") ? live_socket_of(named) : named;
  try {
    return connect_stat_socket(path);
  } catch (const std::system_error& error) {
    fail(kFailed, fmt::format("cannot look at the traffic of the server at {}: {}", path,
                              error.code().message()));
  }
}

void explain(ExplainSettings& given) {
  explaining::Settings settings;
  if (given.words.empty() && given.server.empty()) {
    fail(kUsage, "explain takes a capture file, - for the standard input, or --pid PID");
  }
  read_words(given.words, given.server.empty(), settings);
  settings.filter.xid = xid_of(given.xid);
  settings.filter.procedure = given.procedure;
  settings.filter.peer = given.peer;
  settings.filter.status = given.status;
  settings.filter.since = seconds_of(given.since, "--since");
  settings.filter.until = seconds_of(given.until, "--until");
  settings.filter.slower_than = given.slower_than_ms / 1e3;
  settings.is_json = given.is_json;
  settings.html = given.html;
  settings.svg = given.svg;
  settings.interface_file = given.interface_file;
  if ((!given.html.empty() || !given.svg.empty()) && settings.view != View::kLadder) {
    fail(kUsage, "--html and --svg are for `explain ladder`");
  }
  // Ctrl-C ends a live capture, whose summary comes behind it; a second one ends the command.
  Interrupt interrupt("", kFailed);
  interrupt.wait_for_it();
  settings.stop = interrupt.descriptor();
  settings.live = live_socket(given.server, settings.file);
  settings.on_live = [] { say("rpcrdma: looking at the server's traffic; Ctrl-C ends this"); };
  explaining::Result outcome;
  try {
    outcome = explaining::explain(settings);
  } catch (const std::invalid_argument& error) {
    fail(kUsage, error.what());
  }
  if (!outcome.was_opened) fail(kFailed, outcome.problem);
  if (!outcome.problem.empty()) say_failure(outcome.problem);
  // A verdict on a part of a capture is none.
  const bool is_clean = outcome.errors == 0 && outcome.problem.empty();
  if (settings.view == View::kCheck && !is_clean) throw Exit{kFailed};
}

}  // namespace

void add_explain(Command& program) {
  Command& command = program.add_subcommand(
      "explain", "tell what happened in a capture of RPC over RDMA, and why");
  ExplainSettings& settings = command.on_call(explain);
  command.add(
      {{"WORDS",
        &settings.words,
        "[calls|ladder|check|summary|frames] [SUBJECT] FILE: what to show (calls, if nothing is "
        "given), and a file of pcap or pcapng, - for the standard input, or the socket of a "
        "running server (PID.live). The SUBJECT of a ladder is an "
        "XID in hexadecimal digits, or a connection as '#1'",
        {.least_values = 0, .most_values = 3}},
       {"--pid",
        &settings.server,
        "look at a running `rpcrdma serve`, in place of a file: the id of its process",
        {.type = "PID"}},
       {"--xid", &settings.xid, "only calls with this XID, in hexadecimal digits"},
       {"--procedure", &settings.procedure, "only calls of this procedure, such as READ"},
       {"--peer", &settings.peer, "only calls of connections with this address, or ADDRESS:PORT"},
       {"--since", &settings.since, "only calls from this time on, seconds from the first packet"},
       {"--until", &settings.until, "only calls until this time, seconds from the first packet"},
       {"--status", &settings.status,
        "only calls with this status, such as NFS3ERR_NOENT; ok, or failed"},
       {"--slower-than",
        &settings.slower_than_ms,
        "only calls that took longer, milliseconds",
        {.range = {0.0, 1e9}, .hides_default = true}},
       {"--html",
        &settings.html,
        "ladder: write a page with all calls to this file",
        {.type = "FILE"}},
       {"--svg", &settings.svg, "ladder: write the drawing to this file", {.type = "FILE"}},
       {"--x",
        &settings.interface_file,
        "a .x file (docs/idl.md): names its programs and procedures, and shows their arguments and "
        "results in ladders and in JSON",
        {.type = "FILE"}},
       {"--json", &settings.is_json,
        "print one JSON object a line (docs/explain.md names its members)"}});
  command.set_footer(
      "calls has a line for each call: its form and the reason, its chunks, credits, phases and "
      "status.\n"
      "ladder draws who sent what and when; check lists broken rules with document and section, "
      "and ends with\n"
      "status 1 if there are violations, or a part of the capture was not read; summary counts; "
      "frames has\n"
      "each message on the wire in JSON.\n"
      "Live: tcpdump -i any -w - port 20049 | rpcrdma explain -\n"
      "From inside of a server, over RDMA devices as well: rpcrdma explain --pid PID");
}

}  // namespace rpcrdma::tools
