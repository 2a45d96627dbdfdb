#include "tools/command.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>

#include "blob.h"
#include "blob/step_up.h"
#include "nfs/client/url.h"
#include "rpcbind/lookup.h"
#include "rpcrdma/version_two.h"
#include "tools/metrics.h"
#include "tools/output.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

// A command that was given it already has nothing left to try.
bool may_advise_auto = true;

// --request asks the server for Receives of another size.
struct Request {
  std::uint32_t size = 0;  // bytes
  double after_s = 0;
};

// Reads "rbsiz=SIZE[@SECONDS]".
std::optional<Request> parse_request(const std::string& text) {
  constexpr std::string_view kName = "rbsiz=";
  if (!text.starts_with(kName)) return std::nullopt;
  const std::size_t at = text.find('@');
  const auto size =
      size_of(text.substr(kName.size(), at == std::string::npos ? at : at - kName.size()));
  if (!size || *size < 4096 || *size > 65536) return std::nullopt;
  Request request{.size = static_cast<std::uint32_t>(*size), .after_s = 0};
  if (at == std::string::npos) return request;
  const std::string seconds = text.substr(at + 1);
  char* end = nullptr;
  request.after_s = std::strtod(seconds.c_str(), &end);
  const bool is_number = !seconds.empty() && end == seconds.c_str() + seconds.size();
  if (!is_number || !(request.after_s >= 0 && request.after_s <= 86400)) return std::nullopt;
  return request;
}

std::string problem_with_request(const std::string& text) {
  return parse_request(text) ? ""
                             : "expected rbsiz=SIZE or rbsiz=SIZE@SECONDS, SIZE of 4096 to 65536";
}

}  // namespace

void CommonOptions::add_to(Command& added_to) {
  command = &added_to;
  added_to.add({
      {"--provider",
       &provider.name,
       "RDMA back end: verbs (RDMA devices), siwarp (iWARP over TCP), or auto: verbs if a device "
       "leads to the address, else siwarp",
       {.choices = "auto|siwarp|verbs"}},
      {"--registration",
       &registration,
       "how verbs exposes memory: windows, per-call, auto (the first that the device has), or "
       "cache, which is weaker: old handles stay valid",
       {.choices = "auto|windows|per-call|cache"}},
      {"--crc", &crc, "MPA CRC32C; it is on when either side wants it", {.choices = "on|off"}},
      {"--capture", &provider.capture_file,
       "write what goes over the connection as pcapng, for Wireshark"},
      {"--capture-max",
       &provider.capture_bytes_max,
       "bytes after which it stops",
       {.takes_units = true, .needs = "--capture"}},
      {"--inline",
       &connection.inline_size,
       "largest inline message, bytes; given alone, bulk arguments are no longer either",
       {.range = {1024, 65536}}},
      {"--inline-arguments",
       &inline_arguments,
       "bulk arguments of up to so many bytes stay inline where the server's Receives hold them; "
       "0: none that are longer than --inline",
       {.range = {0, 131072}, .takes_units = true}},
      {"--receive-size",
       &connection.receive_size_max,
       "version 2: the largest Receives that the other side may ask for, bytes; they begin at "
       "--inline",
       {.range = {4096, 65536}, .takes_units = true, .hides_default = true}},
      {"--credits",
       &connection.credits,
       "calls in flight: asked for or granted",
       {.range = {1, 4096}}},
      {"--ird",
       &provider.reads_served_max,
       "RDMA Reads of the other side that are served at a time (IRD); 0: it gets none, so that a "
       "client makes no call with Read chunks (default: 16)",
       {.range = {0, 255}}},
      {"--ord",
       &provider.reads_in_flight_max,
       "RDMA Reads of this side at a time (ORD), as far as the other side serves them; 0: a server "
       "takes no call with Read chunks (default: 16)",
       {.range = {0, 255}}},
      {"--profile",
       &profile,
       "the text that both sides follow: rfc8166; or rfc5666, with results that the client reads, "
       "RDMA_DONE, aligned data and its configuration protocol",
       {.choices = "rfc8166|rfc5666"}},
      {"--rpcrdma-version",
       &protocol,
       "versions of RPC-over-RDMA: 1; 2, and nothing else; or auto: a client offers 2 and goes on "
       "in 1 where the server has no other, a server answers both",
       {.choices = "1|2|auto"}},
      {"--json", &json, "print the result as JSON"},
  });
}

ProtocolVersion CommonOptions::version() const {
  if (protocol == "auto") return ProtocolVersion::kAny;
  return protocol == "2" ? ProtocolVersion::kTwo : ProtocolVersion::kOne;
}

void CommonOptions::refuse(std::initializer_list<const char*> options,
                           const std::string& are_for) const {
  for (const char* const each : options) {
    if (command->is_given(each)) fail(kUsage, fmt::format("{} is for {}", each, are_for));
  }
}

void CommonOptions::refuse_rdma(const std::string& are_for) const {
  refuse({"--provider", "--registration", "--crc", "--ird", "--ord", "--inline",
          "--inline-arguments", "--receive-size", "--credits", "--profile", "--rpcrdma-version"},
         are_for);
}

// Says which options would have no effect beside others.
void CommonOptions::refuse_idle() const {
  if (protocol == "1") refuse({"--receive-size"}, "version 2 (--rpcrdma-version 2 or auto)");
  if (provider.name == "siwarp") refuse({"--registration"}, "RDMA devices (--provider verbs)");
  if (profile == "rfc5666") refuse({"--inline-arguments"}, "RFC 8166 (--profile rfc8166)");
  if (provider.name == "verbs") refuse({"--crc"}, "software iWARP (--provider siwarp)");
}

void CommonOptions::finish() {
  refuse_idle();
  provider.crc = crc == "on";
  const bool bounds_all = command->is_given("--inline") && !command->is_given("--inline-arguments");
  connection.inline_arguments_max = bounds_all ? 0 : inline_arguments;
  if (registration == "windows") provider.registration = Registration::kWindows;
  if (registration == "per-call") provider.registration = Registration::kPerCall;
  if (registration == "cache") provider.registration = Registration::kCache;
  if (profile == "rfc5666") connection.profile = Profile::kRfc5666;
  if (profile == "rfc5666" && protocol == "2") {
    fail(kUsage, "--profile rfc5666 is version 1; leave --rpcrdma-version 2 out");
  }
  if (provider.capture_file.empty()) return;
  const std::string why = problem_with_new_file(provider.capture_file);
  if (!why.empty()) fail(kUsage, fmt::format("--capture {}: {}", provider.capture_file, why));
}

ClientSettings::ClientSettings() : program(blob::BLOB_PROGRAM), version(blob::BLOB_V1) {}

void ClientSettings::add_to(Command& command) {
  command.add({
      {"URL",
       &url,
       "the server: rdma://HOST[:PORT], port 20049 if none is given; or HOST alone, whose rpcbind "
       "is asked for the port",
       {.is_required = true}},
      {"--rpcbind-port", &rpcbind_port, "where rpcbind is asked when HOST stands alone"},
  });
  add_calls_to(command,
               "seconds that connecting and each call may take; unless this is said, the calls "
               "that make the server sum a whole file get more for large ones");
  command.add({
      {"--show-characteristics", &show_characteristics,
       "say on stderr what both sides have told about themselves in version 2"},
      {"--request",
       &request,
       "version 2: ask the server for Receives of SIZE bytes (up to its --receive-size), at once "
       "or SECONDS after connecting, and say on stderr what becomes of it",
       {.check = problem_with_request, .type = "rbsiz=SIZE[@SECONDS]"}},
  });
}

void ClientSettings::add_calls_to(Command& command, const char* timeout_help) {
  if (verbose == Verbose::kTermsOnly) {
    command.add({{"-v,--verbose", &is_verbose,
                  "say on stderr what was negotiated with the server: version, credits, inline "
                  "sizes, invalidation, CRC, and RDMA Reads at a time"}});
  }
  command.add({
      {"--timeout",
       &timeout_s,
       timeout_help,
       {.range = {0.001, 86400.0}, .is_given = &has_timeout}},
      {"--sec",
       &security,
       "how calls are protected: krb5 proves who calls, krb5i also that nothing was changed on its "
       "way, krb5p enciphers; kinit gets the ticket that they take",
       {.choices = "sys|krb5|krb5i|krb5p"}},
      {"--sec-service", &service,
       "the server's name in Kerberos: SERVICE[@HOST], the host of the URL if none is given"},
  });
  command.add(
      {{"--stats", &has_stats,
        "say on stderr at the end what was counted, under the names that `rpcrdma stat` and "
        "Linux' mountstats have"}});
  common.add_to(command);
}

void ClientSettings::add_reconnect_to(Command& command) {
  may_reconnect = true;
  command.add({{"--no-reconnect", &no_reconnect,
                "fail when the connection is lost, instead of going on over a new one"}});
}

void ClientSettings::add_step_up_to(Command& command) {
  command.add(
      {{"--step-up", &step_up,
        "begin with plain TCP at URL, which is tcp://HOST:PORT then (serve --tcp-port), and "
        "go on over RDMA on the same connection; a lost one is not replaced"}});
}

// One of tcp:// and --step-up without the other is a slip, as is a URL of NFS.
void ClientSettings::check_scheme() const {
  if (url.find("://") != std::string::npos) {
    common.refuse({"--rpcbind-port"}, "a HOST alone, whose rpcbind is asked; a URL has the port");
  }
  constexpr std::string_view kRdma = "rdma://";
  if (nfs::is_nfs_url(url)) {
    fail(kUsage,
         fmt::format("{}: this is an NFS URL, and rdma://HOST[:PORT] is expected; for files of NFS "
                     "servers there are ls, cat, cp, stat, mkdir, mv, rm and df, and ping --ready",
                     url));
  }
  if (const auto slash = url.find('/', kRdma.size());
      url.starts_with(kRdma) && slash != std::string::npos && slash + 1 < url.size()) {
    fail(kUsage,
         fmt::format("{}: nothing may follow the port; of an NFS server's export it is nfs+{}", url,
                     url));
  }
  const bool is_tcp = url.starts_with("tcp://");
  if (is_tcp == step_up) return;
  fail(kUsage, step_up ? fmt::format("{}: with --step-up the URL is tcp://HOST:PORT, as "
                                     "`rpcrdma serve --tcp-port` prints it",
                                     url)
                       : fmt::format("{}: plain TCP; put, get, ls and rm go on over RDMA from "
                                     "there with --step-up",
                                     url));
}

void ClientSettings::look_url_up() {
  if (url.find("://") != std::string::npos) return;
  if (url.find("]:") != std::string::npos || std::count(url.begin(), url.end(), ':') == 1) {
    fail(kUsage, fmt::format("{}: with a port it is rdma://{}; HOST alone asks rpcbind", url, url));
  }
  rpcbinding::LookupOptions options{.port = rpcbind_port, .daemon = {}};
  options.daemon.timeout =
      std::min(std::chrono::milliseconds(10'000),
               std::chrono::milliseconds(1 + static_cast<std::int64_t>(timeout_s * 1e3)));
  auto found = rpcbinding::lookup(url, program, version, options);
  if (!found && found.error().code == Errc::kBadUrl) fail(kUsage, found.error().message());
  if (!found) {
    const Errc code = found.error().code;
    const bool nobody =
        code == Errc::kUnreachable || code == Errc::kTimedOut || code == Errc::kUnknownHost;
    fail(nobody ? kNoConnection : kFailed, found.error().message());
  }
  url = *found;
}

namespace {

// Clients end on one thread of a command.
std::optional<TransferCounters> stats_of_clients;

void note_stats(const TransferCounters& counters) {
  TransferCounters& sum = stats_of_clients ? *stats_of_clients : stats_of_clients.emplace();
  for (const TransferCounter& each : kTransferCounters) sum.*each.value += counters.*each.value;
}

}  // namespace

void say_client_stats() noexcept {
  if (!stats_of_clients) return;
  for (const std::string& line : counter_lines(*std::exchange(stats_of_clients, std::nullopt))) {
    say(line);
  }
}

ClientOptions ClientSettings::client_options() {
  common.finish();
  may_advise_auto =
      common.protocol != "auto";  // not for a server, which finishes again at a reload
  if (security == "sys") common.refuse({"--sec-service"}, "Kerberos (--sec krb5, krb5i or krb5p)");
  ClientOptions options;
  options.provider = common.provider;
  options.connection = common.connection;
  options.version = common.version();
  // A user who asks for RFC 5666 wants to see its differences.
  options.connection.rfc5666.results_by_read = true;
  options.call_timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(timeout_s * 1e9));
  options.provider.setup_timeout_client = std::min(
      options.provider.setup_timeout_client,
      std::max(std::chrono::milliseconds(1),
               std::chrono::duration_cast<std::chrono::milliseconds>(options.call_timeout)));
  options.reconnect.enabled = may_reconnect && !no_reconnect;
  options.reconnect.repeats_calls = repeats_calls;
  options.reconnect.delay_max = std::chrono::seconds(1);  // somebody is watching
  if (has_stats) options.on_end = note_stats;
  if (security != "sys") {
    auto& kerberos = options.auth.emplace<gss::ClientSecurity>();
    kerberos.target = service;
    kerberos.service = security == "krb5"    ? gss::Service::kNone
                       : security == "krb5i" ? gss::Service::kIntegrity
                                             : gss::Service::kPrivacy;
  }
  return options;
}

void LogOutClient::operator()(Client* client) const {
  // One that failed may have calls under way.
  if (std::uncaught_exceptions() == 0 && client->connected()) client->identity().log_out();
  delete client;
}

ClientForCommand ClientSettings::connect() {
  const ClientOptions options = client_options();
  check_scheme();
  look_url_up();
  auto made = step_up ? blob::connect_and_step_up(url, options) : Client::connect(url, options);
  if (!made && made.error().code == Errc::kBadUrl) fail(kUsage, made.error().message());
  if (!made && made.error().code == Errc::kVersion) fail(made.error());
  if (!made) fail(kNoConnection, made.error().message());
  ClientForCommand client(new Client(std::move(*made)));
  if (!request.empty()) ask(*client);
  if (show_characteristics || is_verbose) {
    // The server says what it is in front of its next reply, whatever that is, and grants credits
    // with it.
    if (auto call = client->prepare({0, 0, 0})) (void)client->call(std::move(*call));
  }
  if (show_characteristics) say(characteristics_text(*client));
  if (is_verbose) say(terms_text(*client));
  return client;
}

// Sends the user's --request to the server. A request without a delay is waited for; the result of
// a later one is printed in the middle of the work.
void ClientSettings::ask(Client& client) const {
  const Request wanted = parse_request(request).value();
  const auto begun = std::chrono::steady_clock::now();
  const auto ended = std::make_shared<bool>(false);
  const auto tell = [wanted, begun, ended](auto result) {
    *ended = true;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    const char* const results[] = {"granted", "ended with another value", "rejected",
                                   "not answered before the connection ended"};
    const bool was_asked = result != ChangeResult::kLost || took.count() >= wanted.after_s;
    say(fmt::format("rpcrdma: receive size {}: {} (after {:.1f} ms)", wanted.size,
                    was_asked ? results[static_cast<std::size_t>(result)]
                              : "not asked, the work was done before",
                    took.count() * 1e3));
  };
  const auto asked = client.version_two().request_receive_size(
      wanted.size, tell,
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(wanted.after_s)));
  if (!asked) fail(kUsage, fmt::format("--request: {}", asked.error().message()));
  while (wanted.after_s == 0 && !*ended && client.connected()) {
    client.wait();
    client.progress();
  }
}

std::string characteristics_text(const Client& client) {
  const auto both = client.version_two().characteristics();
  if (!both) {
    return fmt::format("version {}, which has no characteristics",
                       client.connection().protocol_version);
  }
  const auto side = [](const Characteristics& of) {
    const char* const levels[] = {"none", "inline", "general"};
    return fmt::format("receive size {}, remote invalidation {}, backward calls {}",
                       of.receive_size, of.takes_invalidation ? "yes" : "no",
                       levels[static_cast<std::size_t>(of.backward)]);
  };
  return fmt::format("version 2\n  this side:  {}\n  the server: {}", side(both->own),
                     side(both->peer));
}

std::string terms_text(const Client& client) {
  const auto terms = client.connection().terms;
  const std::string text =
      terms ? to_string(*terms) : std::string("no RDMA, and nothing is negotiated");
  return fmt::format("rpcrdma: {}: {}", client.connection().peer_address, text);
}

std::string not_empty(const std::string& value) {
  return value.empty() ? "it is empty" : "";
}

void say(const std::string& line) noexcept {
  std::fputs((line + "\n").c_str(), stderr);
}

void say_failure(const std::string& text) noexcept {
  std::fputs(failure_line("rpcrdma: " + text).c_str(), stderr);
}

namespace {

thread_local unsigned quiet_failures = 0;

}  // namespace

QuietFailures::QuietFailures() noexcept {
  ++quiet_failures;
}

QuietFailures::~QuietFailures() {
  --quiet_failures;
}

void fail(ExitCode code, const std::string& text) {
  if (quiet_failures == 0) say_failure(text);
  throw Exit{code, text};
}

void fail(const Error& error, const std::string& what) {
  const bool lost = error.code == Errc::kConnectionLost;
  std::string text = what.empty() ? error.message() : fmt::format("{}: {}", what, error.message());
  if (error.code == Errc::kVersion && may_advise_auto) text += "; try --rpcrdma-version auto";
  fail(lost ? kNoConnection : kFailed, text);
}

void fail(const Error& error, const std::string& what, const Client& client) {
  // With reconnection a server that is gone shows as a call without a connection in its time.
  if (error.code == Errc::kTimedOut && !client.connected()) {
    fail(kNoConnection, fmt::format("{}: {}", what, error.message()));
  }
  fail(error, what);
}

Latency Latency::of(std::vector<std::uint64_t>& samples_ns) {
  if (samples_ns.empty()) return {};
  std::sort(samples_ns.begin(), samples_ns.end());
  const auto at = [&](double quantile) {
    const auto last = static_cast<double>(samples_ns.size() - 1);
    return static_cast<double>(samples_ns[static_cast<std::size_t>(quantile * last + 0.5)]) / 1e3;
  };
  const double sum = std::accumulate(samples_ns.begin(), samples_ns.end(), 0.0);
  return {at(0), sum / static_cast<double>(samples_ns.size()) / 1e3, at(0.5), at(0.99), at(0.999),
          at(1)};
}

Json to_json(const Latency& latency) {
  return {{"min_us", latency.min_us}, {"avg_us", latency.avg_us},   {"p50_us", latency.p50_us},
          {"p99_us", latency.p99_us}, {"p999_us", latency.p999_us}, {"max_us", latency.max_us}};
}

Json to_json(const TransferCounters& counters) {
  Json report = Json::object();
  for (const TransferCounter& each : kTransferCounters) {
    report.set(each.name, counters.*each.value);
  }
  return report;
}

std::string size_text(std::uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace rpcrdma::tools
