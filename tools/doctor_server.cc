// Steps of `rpcrdma doctor --server`: settings, ports and neighbours of a server on this machine.
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/file.h"
#include "mount3.h"
#include "rpcbind/daemon.h"
#include "tools/doctor.h"
#include "tools/serve_nfs.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools::doctor {
namespace {

struct Ended {
  int status = -1;  // -1: it did not end in time
  std::string output;
};

// Runs this program with other words, which have no words of strangers in them.
Ended run_self(std::vector<std::string> words, std::chrono::milliseconds patience) {
  Ended ended;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ended;
  const files::File reading(ends[0]);
  files::File writing(ends[1]);
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.descriptor(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, writing.descriptor(), 2);
  std::vector<char*> pointers;
  for (std::string& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writing = files::File();
  if (failed != 0) return ended;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool is_over = false;
  while (!is_over) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waited{reading.descriptor(), POLLIN, 0};
    if (::poll(&waited, 1, std::max(0, static_cast<int>(left.count()))) == 0) break;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(reading.descriptor(), buffer.data(), buffer.size());
    if (count > 0) ended.output.append(buffer.data(), static_cast<std::size_t>(count));
    is_over = count == 0 || (count < 0 && errno != EINTR);
  }
  if (!is_over) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (is_over && WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  return ended;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

std::optional<std::uint16_t> number_at_end(std::string_view line) {
  const std::size_t begin = line.find_last_not_of("0123456789");
  if (begin == std::string_view::npos || begin + 1 == line.size()) return std::nullopt;
  std::uint16_t number = 0;
  const auto digits = line.substr(begin + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// Returns the number of the first line that begins so.
std::optional<std::uint16_t> number_in(const std::vector<std::string>& lines,
                                       std::string_view beginning) {
  const auto found = std::ranges::find_if(
      lines, [&](const std::string& each) { return each.starts_with(beginning); });
  return found == lines.end() ? std::nullopt : number_at_end(*found);
}

// Returns the text between two others in the first line that has both; empty: no line has.
std::string text_between(const std::vector<std::string>& lines, std::string_view before,
                         std::string_view behind) {
  for (const std::string& each : lines) {
    const std::size_t end = each.rfind(behind);
    if (!each.starts_with(before) || end == std::string::npos || end < before.size()) continue;
    return each.substr(before.size(), end - before.size());
  }
  return {};
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Where a server would listen, or listens.
struct ServedPort {
  std::string host;  // as the settings have it, but for brackets
  std::uint16_t port;
  Addresses addresses{nullptr, &::freeaddrinfo};  // of the host, in the order to try
  std::string problem{};                          // the resolver's reason why there are none
  std::string taken{};  // the numeric host of the address that a server takes; empty: none yet
};

// Looks the host up as a server does: a zone behind "%25" is one behind '%' (RFC 6874).
ServedPort served_port(std::string host, std::uint16_t port) {
  if (const auto escape = host.find("%25"); host.size() > escape && host.size() - escape > 3) {
    host.erase(escape + 1, 2);
  }
  ServedPort served{std::move(host), port};
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const int code = ::getaddrinfo(served.host.c_str(), std::to_string(port).c_str(), &hints, &found);
  const int error = errno;
  if (code == 0) {
    served.addresses.reset(found);
  } else {
    served.problem = code == EAI_SYSTEM ? std::strerror(error) : ::gai_strerror(code);
  }
  return served;
}

std::string numeric_host(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  const int code = ::getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(),
                                 nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? text.data() : std::string();
}

// Tries to listen for a moment. Returns 0 or an errno.
int try_address(const addrinfo& address) {
  const int descriptor = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return errno;
  const files::File socket(descriptor);
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens =
      ::bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 && ::listen(descriptor, 1) == 0;
  return listens ? 0 : errno;
}

// Returns 0 if a server can listen at one of the addresses, of which it takes the first such;
// EADDRINUSE if another socket has the port of one; otherwise the errno of the last.
int try_port(ServedPort& served) {
  bool is_in_use = false;
  int error = EADDRNOTAVAIL;
  for (const addrinfo* each = served.addresses.get(); each != nullptr; each = each->ai_next) {
    error = try_address(*each);
    if (error == 0) {
      served.taken = numeric_host(*each);
      return 0;
    }
    is_in_use = is_in_use || error == EADDRINUSE;
  }
  return is_in_use ? EADDRINUSE : error;
}

// Returns where a server that listens there is asked, "ADDR:PORT": all addresses of a family have
// its loopback among them.
std::string asked_at(std::string host, std::uint16_t port) {
  if (host == "0.0.0.0") host = kLoopback;
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}:{}", host, port);
}

// Returns whether the kernel's server of NFS listens for RDMA at the port, which is no socket.
bool has_nfsd(const Walk& walk, std::uint16_t port) {
  const auto lines = lines_of(walk.machine.text("/proc/fs/nfsd/portlist"));
  return std::ranges::count(lines, fmt::format("rdma {}", port)) > 0;
}

// Returns whether a server of RPC answers at one of the addresses: perhaps the one to be served.
bool answers(const Walk& walk, const char* scheme, ServedPort& served) {
  ClientOptions options = walk.options;
  options.auth = std::monostate();
  options.provider.name = "siwarp";
  options.provider.setup_timeout_client = std::chrono::milliseconds(1'000);
  options.call_timeout = std::chrono::seconds(1);
  for (const addrinfo* each = served.addresses.get(); each != nullptr; each = each->ai_next) {
    const std::string host = numeric_host(*each);
    auto client =
        Client::connect(fmt::format("{}://{}", scheme, asked_at(host, served.port)), options);
    if (!client) continue;
    const auto called = call_null(*client, mount3::MOUNT_PROGRAM, mount3::MOUNT_V3);
    if (!called && called.error().code != Errc::kNotAvailable) continue;
    served.taken = host;
    return true;
  }
  return false;
}

// Returns what is wrong with a port; empty: nothing. Adds what was seen to the text.
std::string look_at_port(const Walk& walk, ServedPort& served, const char* scheme,
                         std::string& text) {
  const int error = try_port(served);
  const bool is_served = error == EADDRINUSE && answers(walk, scheme, served);
  if (error == 0 || is_served) {
    text += text.empty() ? "" : ", ";
    text += served.port == 0
                ? fmt::format("a free one for {}", scheme)
                : fmt::format("{} {}", served.port, is_served ? "answers RPC already" : "is free");
    return {};
  }
  const std::string port = served.port == 0 ? "no port" : fmt::format("port {}", served.port);
  return fmt::format("{} of {} {} be listened on: {}", port, served.host,
                     served.port == 0 ? "can" : "cannot",
                     served.problem.empty() ? std::strerror(error) : served.problem);
}

}  // namespace

Finding check_settings(Walk& walk) {
  const std::string& path = walk.settings.settings_file;
  if (!walk.settings.client.common.command->is_given("--config") && !walk.machine.has(path)) {
    return Finding::skipped(fmt::format(
        "{} is not there; --config names another file, and the options of serve need none", path));
  }
  const std::string file =
      walk.settings.client.common.command->is_given("--config") ? path : walk.machine.place(path);
  const Ended ended = run_self({"rpcrdma", "serve", "--config", file, "--check"}, walk.patience);
  const std::string remedy = fmt::format("`rpcrdma serve --config {} --check` says the same", path);
  if (ended.status < 0) {
    return Finding::failed(
        fmt::format("{} was not checked within {} s", path, walk.patience.count() / 1000),
        "a directory in it does not answer, as one of another server that is gone: `stat` each");
  }
  walk.serve_settings = lines_of(ended.output);
  if (ended.status == kSuccess) return Finding::ok(path + " can be served");
  const std::string why = walk.serve_settings.empty() ? "no reason" : walk.serve_settings.back();
  return Finding::failed(fmt::format("{} cannot be served: {}", path, why), remedy);
}

Finding check_listening(Walk& walk) {
  constexpr std::string_view kListening = "It would listen on ";
  const auto& lines = walk.serve_settings;
  const std::uint16_t port = number_in(lines, kListening).value_or(kDefaultPort);
  const auto told = number_in(lines, "  --nfs-tcp-port");
  std::string host = text_between(lines, kListening, " port ");
  if (host.empty()) host = kLoopback;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  std::string text;
  if (has_nfsd(walk, port)) {
    if (lines.empty()) return Finding::ok(fmt::format("nfsd serves RDMA at port {}", port));
    return Finding::failed(
        fmt::format("the kernel's nfsd listens for RDMA at port {}, which the settings want", port),
        fmt::format("systemctl stop nfs-server, or take another port (--port {})", port + 1));
  }
  ServedPort rdma = served_port(host, port);
  std::string problem = look_at_port(walk, rdma, "rdma", text);
  const std::string remedy =
      "`ss -ltnp` names the program that has it: end that one, or take another port (--port, "
      "--nfs-tcp-port), or an address of this machine (--listen); ports below 1024 take root";
  if (!problem.empty()) return Finding::failed(problem, remedy);
  // A server listens by TCP at the address that it has for RDMA, even if its name has several.
  ServedPort tcp = served_port(rdma.taken, told.value_or(kNfsTcpPort));
  problem = look_at_port(walk, tcp, "tcp", text);
  if (problem.empty()) return Finding::ok(text);
  if (told) return Finding::failed(problem, remedy);
  return Finding::warning(problem, "without that port Linux asks elsewhere for MOUNT; " + remedy);
}

Finding check_rpcbind(Walk& walk) {
  rpcbinding::DaemonOptions options;
  options.timeout = std::min(walk.patience, std::chrono::milliseconds(2'000));
  const std::string where =
      walk.machine.is_real() ? std::string() : walk.machine.place("/run/rpcbind.sock");
  const auto daemon = rpcbinding::Daemon::connect_local(where, options);
  if (daemon) return Finding::ok(fmt::format("{} answers", daemon->peer()));
  return Finding::warning(
      "no rpcbind runs here, so that clients have to name the ports (mountport=), and serve "
      "--rpcbind fails",
      "systemctl enable --now rpcbind, and serve with --rpcbind; nothing else needs it");
}

Finding check_firewall(Walk& walk) {
  (void)walk;
  return Finding::skipped(
      "a firewall cannot be seen from this side: let TCP 20049 (iWARP, siwarp), UDP 4791 (RoCE), "
      "TCP 2049 (MOUNT and NFS by TCP) and TCP 111 (rpcbind) through, and run `rpcrdma doctor URL` "
      "on a client");
}

}  // namespace rpcrdma::tools::doctor
