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

// Where a server would listen, or listens.
struct ServedPort {
  std::string host;  // as the settings have it, but for brackets
  std::uint16_t port;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Returns the addresses of the host, of which a server takes the first; null: it has none.
Addresses addresses_of(const ServedPort& served) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const std::string port = std::to_string(served.port);
  if (::getaddrinfo(served.host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// Tries to listen for a moment. Returns 0 or an errno.
int try_port(const ServedPort& served) {
  const Addresses addresses = addresses_of(served);
  if (!addresses) return EADDRNOTAVAIL;
  const files::File socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.descriptor(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      ::listen(socket.descriptor(), 1) != 0) {
    return errno;
  }
  return 0;
}

// Returns where a server that listens there is asked, "ADDR:PORT": all addresses of a family have
// its loopback among them.
std::string asked_at(const ServedPort& served) {
  std::string host = served.host;
  if (const Addresses addresses = addresses_of(served)) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(addresses->ai_addr, addresses->ai_addrlen, text.data(), text.size(), nullptr,
                      0, NI_NUMERICHOST) == 0) {
      host = text.data();
    }
  }
  if (host == "0.0.0.0") host = kLoopback;
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}:{}", host, served.port);
}

// Returns whether the kernel's server of NFS listens for RDMA at the port, which is no socket.
bool has_nfsd(const Walk& walk, std::uint16_t port) {
  const auto lines = lines_of(walk.machine.text("/proc/fs/nfsd/portlist"));
  return std::ranges::count(lines, fmt::format("rdma {}", port)) > 0;
}

// Returns whether a server of RPC answers there: perhaps the one to be served.
bool answers(const Walk& walk, const char* scheme, const ServedPort& served) {
  ClientOptions options = walk.options;
  options.auth = std::monostate();
  options.provider.name = "siwarp";
  options.provider.setup_timeout_client = std::chrono::milliseconds(1'000);
  options.call_timeout = std::chrono::seconds(1);
  auto client = Client::connect(fmt::format("{}://{}", scheme, asked_at(served)), options);
  if (!client) return false;
  const auto called = call_null(*client, mount3::MOUNT_PROGRAM, mount3::MOUNT_V3);
  return called || called.error().code == Errc::kNotAvailable;
}

// Returns what is wrong with a port; empty: nothing. Adds what was seen to the text.
std::string look_at_port(const Walk& walk, const ServedPort& served, const char* scheme,
                         std::string& text) {
  if (served.port == 0) {
    text += fmt::format("{}a free one for {}", text.empty() ? "" : ", ", scheme);
    return {};
  }
  const int error = try_port(served);
  const bool is_served = error == EADDRINUSE && answers(walk, scheme, served);
  if (error == 0 || is_served) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", served.port,
                        is_served ? "answers RPC already" : "is free");
    return {};
  }
  return fmt::format("port {} of {} cannot be listened on: {}", served.port, served.host,
                     std::strerror(error));
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
  std::string problem = look_at_port(walk, {host, port}, "rdma", text);
  const std::string remedy =
      "`ss -ltnp` names the program that has it: end that one, or take another port (--port, "
      "--nfs-tcp-port), or an address of this machine (--listen); ports below 1024 take root";
  if (!problem.empty()) return Finding::failed(problem, remedy);
  problem = look_at_port(walk, {host, told.value_or(kNfsTcpPort)}, "tcp", text);
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
