// `rpcrdma top`: a server and its connections, live.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/figures.h"
#include "tools/interrupt.h"
#include "tools/text.h"
#include "tools/top_mount.h"

namespace rpcrdma::tools {
namespace {

struct TopSettings {
  std::string server;
  double interval_s = 1;
  std::string sort = "calls";
  bool once = false;
  bool json = false;
};

// A connection, or all of them; rates are those of the interval.
struct Row {
  std::string peer, transport;
  double version = 0, credits = 0, in_service = 0;
  double calls = 0, bytes = 0;                // a second
  double reads = 0, writes = 0, replies = 0;  // chunks a second
  double starved = 0;                         // calls a second that took the last credit
  double p50_s = 0, p99_s = 0;
};

// A column of the table, and the key that sorts by it.
struct Column {
  const char* name;
  char key;
  double Row::*value;  // null: the peer
};
constexpr Column kColumns[] = {
    {"calls", 'c', &Row::calls},        {"bytes", 'b', &Row::bytes},   {"peer", 'p', nullptr},
    {"credits", 'i', &Row::in_service}, {"waits", 'w', &Row::starved}, {"p50", '5', &Row::p50_s},
    {"p99", '9', &Row::p99_s},
};

// One reading, and when it was taken.
struct Reading {
  Figures figures;
  std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
};

double between(const Reading& before, const Reading& now) {
  return std::max(1e-3, std::chrono::duration<double>(now.at - before.at).count());
}

// Returns the value of one figure for each peer.
std::map<std::string, double> by_peer(const Figures& figures, std::string_view name) {
  std::map<std::string, double> values;
  for (const Figure& each : figures.all()) {
    if (each.name == name) values[std::string(each.label("peer"))] = each.value;
  }
  return values;
}

// The counts of the times of each peer, read in one pass.
std::map<std::string, Spread> spreads(const Figures& figures) {
  std::map<std::string, Spread> found;
  for (const Figure& each : figures.all()) {
    if (each.name != "connection_seconds_bucket") continue;
    found[std::string(each.label("peer"))].add(
        std::strtod(std::string(each.label("le")).c_str(), nullptr), each.value);
  }
  return found;
}

std::vector<Row> rows_of(const Reading& before, const Reading& now) {
  const double seconds = between(before, now);
  std::map<std::string, Row> rows;
  for (const Figure& each : now.figures.all()) {
    if (each.name != "connection_credits") continue;
    Row& row = rows[std::string(each.label("peer"))];
    row.peer = each.label("peer");
    row.transport = each.label("transport");
    row.credits = each.value;
  }
  const auto level = [&](std::string_view name, double Row::*to) {
    for (const auto& [peer, value] : by_peer(now.figures, name)) rows[peer].*to = value;
  };
  const auto rate = [&](std::string_view name, double Row::*to) {
    const auto earlier = by_peer(before.figures, name);
    for (const auto& [peer, value] : by_peer(now.figures, name)) {
      const auto found = earlier.find(peer);
      const double first = found == earlier.end() ? 0 : found->second;
      rows[peer].*to = std::max(0.0, value - first) / seconds;
    }
  };
  level("connection_version", &Row::version);
  level("connection_calls_in_service", &Row::in_service);
  rate("connection_calls", &Row::calls);
  rate("connection_payload_bytes", &Row::bytes);
  rate("connection_read_chunk_count", &Row::reads);
  rate("connection_write_chunk_count", &Row::writes);
  rate("connection_reply_chunk_count", &Row::replies);
  rate("connection_rq_starve", &Row::starved);
  const auto earlier = spreads(before.figures);
  for (auto& [peer, spread] : spreads(now.figures)) {
    const auto found = earlier.find(peer);
    const Spread here = found == earlier.end() ? spread : spread.since(found->second);
    rows[peer].p50_s = here.quantile(0.5);
    rows[peer].p99_s = here.quantile(0.99);
  }
  std::vector<Row> all;
  for (auto& [peer, row] : rows) all.push_back(std::move(row));
  return all;
}

// Returns the row of all connections; those that ended in between are in its rates.
Row sum_of(const Reading& before, const Reading& now, const std::vector<Row>& rows) {
  const double seconds = between(before, now);
  Row sum;
  sum.bytes = (now.figures.sum("payload_bytes_total") - before.figures.sum("payload_bytes_total")) /
              seconds;  // over RDMA
  for (const Row& each : rows) {
    if (each.transport == "tcp") sum.bytes += each.bytes;
    sum.reads += each.reads;
    sum.writes += each.writes;
    sum.replies += each.replies;
    sum.starved += each.starved;
  }
  sum.calls = (now.figures.sum("calls_total") - before.figures.sum("calls_total")) / seconds;
  sum.in_service = now.figures.sum("calls_in_service");
  const Spread spread = now.figures.spread("call_duration_seconds")
                            .since(before.figures.spread("call_duration_seconds"));
  sum.p50_s = spread.quantile(0.5);
  sum.p99_s = spread.quantile(0.99);
  return sum;
}

const Column& column_of(const std::string& name) {
  return *std::ranges::find(kColumns, name,
                            [](const Column& each) { return std::string(each.name); });
}

void sort_rows(std::vector<Row>& rows, const std::string& by) {
  const auto value = column_of(by).value;
  std::ranges::stable_sort(rows, [value](const Row& left, const Row& right) {
    return value == nullptr ? left.peer < right.peer : left.*value > right.*value;
  });
}

std::string time_text(double seconds) {
  if (seconds == 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

std::string rate_text(double bytes) {
  return size_text(static_cast<std::uint64_t>(bytes)) + "/s";
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// `lines`: of the terminal; what does not fit is counted.
std::string table(const Reading& before, const Reading& now, const std::string& sort,
                  std::size_t lines) {
  if (is_of_mount(now.figures))
    return mount_table(before.figures, now.figures, between(before, now));
  std::vector<Row> rows = rows_of(before, now);
  const Row sum = sum_of(before, now, rows);
  sort_rows(rows, sort);
  const Figures& figures = now.figures;
  const Figure* const build = figures.first("build_info");
  std::string text =
      fmt::format("rpcrdma {} over {}, up {}: {} connections, {:.0f} calls/s, {}, p50 {}, p99 {}\n",
                  build != nullptr ? build->label("version") : "",
                  build != nullptr ? build->label("provider") : "",
                  duration_text(figures.sum("uptime_seconds")), figures.sum("connections"),
                  sum.calls, rate_text(sum.bytes), time_text(sum.p50_s), time_text(sum.p99_s));
  text += fmt::format(
      "memory {} of {} in use, {} registered, {} pinned; {:.0f} calls in service, {:.0f} wait for "
      "memory; refused: {:.0f} calls, {:.0f} connections\n\n",
      size_text(static_cast<std::uint64_t>(figures.sum("memory_in_use_bytes"))),
      size_text(static_cast<std::uint64_t>(figures.sum("memory_limit_bytes"))),
      size_text(static_cast<std::uint64_t>(figures.sum("memory_registered_bytes"))),
      size_text(static_cast<std::uint64_t>(figures.sum("memory_pinned_bytes"))),
      figures.sum("calls_in_service"), figures.sum("calls_waiting_for_memory"),
      figures.sum("calls_refused_total"), figures.sum("connections_refused_total"));
  text += fmt::format("{:<30} {:>4} {:>9} {:>12} {:>7} {:>7} {:>7} {:>9} {:>7} {:>8} {:>8}\n",
                      "PEER", "VER", "CALLS/s", "BYTES", "READ/s", "WRITE/s", "REPLY/s", "CREDITS",
                      "WAIT/s", "P50", "P99");
  std::size_t shown = 0;
  for (const Row& row : rows) {
    if (shown + 5 > lines) break;
    ++shown;
    const std::string version = row.transport == "tcp" ? "tcp"
                                : row.version == 0     ? "rdma"
                                                       : fmt::format("v{:.0f}", row.version);
    text += fmt::format(
        "{:<30} {:>4} {:>9.0f} {:>12} {:>7.0f} {:>7.0f} {:>7.0f} {:>9} {:>7.0f} {:>8} {:>8}\n",
        printable(row.peer), version, row.calls, rate_text(row.bytes), row.reads, row.writes,
        row.replies, fmt::format("{:.0f}/{:.0f}", row.in_service, row.credits), row.starved,
        time_text(row.p50_s), time_text(row.p99_s));
  }
  if (shown < rows.size()) text += fmt::format("… and {} others\n", rows.size() - shown);
  return text;
}

Json to_json(const Row& row) {
  return {{"calls_per_s", row.calls},           {"bytes_per_s", row.bytes},
          {"read_chunks_per_s", row.reads},     {"write_chunks_per_s", row.writes},
          {"reply_chunks_per_s", row.replies},  {"credits_exhausted_per_s", row.starved},
          {"calls_in_service", row.in_service}, {"p50_us", row.p50_s * 1e6},
          {"p99_us", row.p99_s * 1e6}};
}

Json json_of(const Reading& before, const Reading& now, const std::string& sort) {
  if (is_of_mount(now.figures))
    return mount_json(before.figures, now.figures, between(before, now));
  std::vector<Row> rows = rows_of(before, now);
  sort_rows(rows, sort);
  Json connections = Json::array();
  for (const Row& row : rows) {
    Json one = to_json(row);
    one.set("peer", row.peer);
    one.set("transport", row.transport);
    one.set("rpcrdma_version", row.version);
    one.set("credits", row.credits);
    connections.push_back(one);
  }
  Json all = to_json(sum_of(before, now, rows));
  all.set("uptime_s", now.figures.sum("uptime_seconds"));
  for (const char* name :
       {"connections", "memory_in_use_bytes", "memory_limit_bytes", "memory_registered_bytes",
        "memory_pinned_bytes", "calls_waiting_for_memory", "connections_refused_total"}) {
    all.set(name, now.figures.sum(name));
  }
  return {{"server", all}, {"connections", connections}};
}

bool is_changed = false;
termios at_first{};  // of the terminal, if it is changed
void give_back() {
  if (is_changed) (void)::tcsetattr(STDIN_FILENO, TCSANOW, &at_first);
}
extern "C" void give_back_and_end(int number) {
  give_back();
  (void)::raise(number);
}

// The terminal while keys are read one by one; it is as it was afterwards.
class RawKeys {
 public:
  // Without handling signals, Ctrl-C would leave the terminal as it is made here.
  RawKeys() {
    stopped_.wait_for_it(give_back);
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    is_raw_ = true;
    at_first = before_;
    is_changed = true;
    // A signal that ends the program gives the terminal back as well, as a second Ctrl-C does.
    struct sigaction action {};
    action.sa_handler = give_back_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    (void)::sigaction(SIGQUIT, &action, nullptr);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~RawKeys() {
    if (is_raw_) (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawKeys(const RawKeys&) = delete;
  RawKeys& operator=(const RawKeys&) = delete;

  // A descriptor that becomes readable with Ctrl-C.
  int stopped() const noexcept { return stopped_.descriptor(); }
  // Waits for a key; '\0': none has come.
  char wait(double seconds) const {
    std::array<pollfd, 2> entries{
        {{stopped_.descriptor(), POLLIN, 0}, {is_raw_ ? STDIN_FILENO : -1, POLLIN, 0}}};
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(seconds * 1e3));
    if (stopped_.has_come()) return 'q';
    if (ready <= 0) return '\0';
    char key = '\0';
    return ::read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
  }

 private:
  termios before_{};
  bool is_raw_ = false;
  Interrupt stopped_{"", kFailed};
};

std::size_t terminal_lines() {
  winsize size{};
  constexpr std::size_t kUsual = 24;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

// Goes on until 'q', Ctrl-C, or the end of the server.
void show(TopSettings& settings) {
  const RawKeys keys;
  std::optional<Figures> first = Figures::of(settings.server, keys.stopped());
  if (!first) return;
  Reading before{std::move(*first)};
  for (char key = keys.wait(std::min(settings.interval_s, 0.3)); key != 'q';
       key = keys.wait(settings.interval_s)) {
    for (const Column& each : kColumns) {
      if (each.key == key) settings.sort = each.name;
    }
    std::optional<Figures> next = Figures::of(settings.server, keys.stopped());
    if (!next) break;
    Reading now{std::move(*next)};
    before.figures = before.figures.before(now.figures, between(before, now));
    fmt::print("\033[H\033[J{}\033[K\nsorted by {}; keys:",
               table(before, now, settings.sort, terminal_lines() - 2), settings.sort);
    for (const Column& each : kColumns) fmt::print(" {} {}", each.key, each.name);
    fmt::print(" q quit");
    if (std::fflush(stdout) != 0) return;
    before = std::move(now);
  }
  fmt::print("\n");
}

void top(TopSettings& settings) {
  const bool is_live = !settings.once && !settings.json;
  if (is_live && ::isatty(STDOUT_FILENO) == 0) {
    fail(kUsage,
         "top shows a live table in a terminal, and standard output is none: --once prints "
         "it once, --json for programs");
  }
  settings.server = stat_socket_of(settings.server);  // the same one, whatever others begin
  if (is_live) return show(settings);
  Reading before{Figures::of(settings.server)};
  (void)::poll(nullptr, 0, static_cast<int>(settings.interval_s * 1e3));
  const Reading now{Figures::of(settings.server)};
  before.figures = before.figures.before(now.figures, between(before, now));
  constexpr std::size_t kNoLimit = 1U << 20U;
  if (settings.json) return print_json(json_of(before, now, settings.sort));
  fmt::print("{}", table(before, now, settings.sort, kNoLimit));
}

}  // namespace

void add_top(Command& program) {
  Command& command = program.add_subcommand(
      "top", "show what a server does now, and each of its connections, or what a mount does");
  TopSettings& settings = command.on_call(top);
  command.add({
      {"server", &settings.server,
       "the id of its process, or the path of its socket; not needed where one server runs; of a "
       "mount also its directory"},
      {"--interval",
       &settings.interval_s,
       "seconds between two readings, over which rates are taken",
       {.range = {0.05, 3600.0}}},
      {"--sort",
       &settings.sort,
       "order of the connections: most calls or bytes a second first, by name, by calls in "
       "service, "
       "by calls that took the last credit, or by time",
       {.choices = "calls|bytes|peer|credits|waits|p50|p99"}},
      {"--once", &settings.once, "print the table once, after one interval"},
      {"--json", &settings.json, "print one JSON object after one interval"},
  });
  command.set_footer(
      "Columns: VER, the version of RPC-over-RDMA, or tcp; READ, WRITE and REPLY, chunks;\n"
      "CREDITS, calls in service and the credits granted; WAIT, calls that took the last credit,\n"
      "behind which the client waits; P50 and P99, from the arrival of a call to its answer.\n"
      "\n"
      "Examples: rpcrdma top; rpcrdma top --once --json | jq .server.p99_us");
}

}  // namespace rpcrdma::tools
