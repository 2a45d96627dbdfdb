#include "explain/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/interrupt.h"

namespace rpcrdma::tools {
namespace {

using explaining::View;

struct ExplainSettings {
  std::vector<std::string> words;
  std::string xid, procedure, peer, status, html, svg;
  std::string since, until, interface_file;
  double slower_than_ms = 0;
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

// The words are [VIEW] [SUBJECT] FILE.
void read_words(const std::vector<std::string>& words, explaining::Settings& settings) {
  std::size_t next = 0;
  if (words.size() > 1) {
    const auto view = std::find_if(kViews.begin(), kViews.end(),
                                   [&](const auto& each) { return each.first == words[0]; });
    if (view == kViews.end()) {
      fail(kUsage, fmt::format("explain shows calls, ladder, check, summary or frames, not '{}'",
                               words[0]));
    }
    settings.view = view->second;
    next = 1;
  }
  if (words.size() == 3) {
    if (settings.view != View::kLadder) {
      fail(kUsage, fmt::format("only ladder has a subject; '{}' is one word too many", words[1]));
    }
    settings.subject = words[next++];
  }
  settings.file = words[next];
}

void explain(ExplainSettings& given) {
  explaining::Settings settings;
  read_words(given.words, settings);
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
  explaining::Result outcome;
  try {
    outcome = explaining::explain(settings);
  } catch (const std::invalid_argument& error) {
    fail(kUsage, error.what());
  }
  if (!outcome.was_opened) fail(kFailed, outcome.problem);
  if (!outcome.problem.empty()) say("rpcrdma: " + outcome.problem);
  if (settings.view == View::kCheck && outcome.errors != 0) throw Exit{kFailed};
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
        "given), and a file of pcap or pcapng; - is the standard input. The SUBJECT of a ladder is "
        "an "
        "XID in hexadecimal digits, or a connection as '#1'",
        {.is_required = true, .least_values = 1, .most_values = 3}},
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
      "status 1 if there are violations; summary counts; frames has each message on the wire in "
      "JSON.\n"
      "Live: tcpdump -i any -w - port 20049 | rpcrdma explain -");
}

}  // namespace rpcrdma::tools
