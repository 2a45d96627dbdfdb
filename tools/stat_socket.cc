#include "tools/stat_socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace rpcrdma::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kWaiting = 16;  // clients
constexpr time_t kServerPatience_s = 8;
constexpr const char* kSystemFolder = "/run/rpcrdma";
constexpr const char* kFigures = ".sock";  // the extensions of sockets
constexpr const char* kLive = ".live";

[[noreturn]] void fail_with(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) fail_with(ENAMETOOLONG, path);
  path.copy(address.sun_path, path.size());
  return address;
}

// Returns a socket; negative: errno, negated.
int connected_to(const std::string& path) {
  const sockaddr_un address = address_of(path);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -errno;
  const timeval patience{kServerPatience_s, 0};
  (void)::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  (void)::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return socket;
  }
  const int error = errno;
  ::close(socket);
  return -error;
}

// Returns a free name in the folder of this one. It is short: so are addresses.
std::string name_beside(const std::string& path) {
  std::uint32_t number = 0;
  (void)!::getrandom(&number, sizeof number, 0);  // so few bytes never come short
  return (fs::path(path).parent_path() / fmt::format(".{:08x}", number)).string();
}

// nullopt: there is no socket.
std::optional<FileNumber> socket_at(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return std::nullopt;
  return FileNumber{status.st_dev, status.st_ino};
}

// Returns whether nobody listens at this socket.
bool is_stale(const std::string& path) {
  const int connected = connected_to(path);
  if (connected >= 0) ::close(connected);
  return connected == -ECONNREFUSED;
}

// Removes the socket of a server that is gone. Anything else that is there stays in the way, and
// comes back if it has taken that one's place meanwhile.
void remove_stale(const std::string& path) {
  if (!socket_at(path) || !is_stale(path)) return;
  const std::string aside = name_beside(path);
  (void)address_of(aside);  // which may be too long: then nothing is moved
  if (::rename(path.c_str(), aside.c_str()) != 0) return;
  if (!is_stale(aside)) (void)!::link(aside.c_str(), path.c_str());
  ::unlink(aside.c_str());
}

bool may_read(int client) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == 0 || peer.uid == ::geteuid());
}

// The time is for the whole text: a client that reads a byte now and then is not waited for longer
// than one that reads nothing.
void write_text(int client, int ending, std::string_view left, std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + patience;
  std::array<pollfd, 2> entries{{{client, POLLOUT, 0}, {ending, POLLIN, 0}}};
  while (true) {
    const ssize_t sent = ::send(client, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      left.remove_prefix(static_cast<std::size_t>(sent));
      if (left.empty()) return;  // the client may read it when it likes
    } else if (errno != EAGAIN) {
      return;
    }
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (rest.count() <= 0) return;
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(rest.count()));
    if (entries[1].revents != 0 || (ready < 0 && errno != EINTR)) return;
  }
}

}  // namespace

StatSocket::StatSocket(std::string path, Text text, std::chrono::milliseconds patience)
    : StatSocket(std::move(path), Serve([text = std::move(text), patience](int client, int ending) {
                   write_text(client, ending, text(), patience);
                 })) {}

StatSocket::StatSocket(std::string path, Serve serve)
    : path_(std::move(path)), serve_(std::move(serve)) {
  (void)address_of(path_);
  remove_stale(path_);
  // Between bind() and listen() others that start take a socket for that of a server that is gone.
  const std::string temporary = name_beside(path_);
  const sockaddr_un address = address_of(temporary);
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ending_ = ::eventfd(0, EFD_CLOEXEC);
  const auto give_up = [&](int error, const std::string& bound) {
    if (!bound.empty()) ::unlink(bound.c_str());
    if (socket_ >= 0) ::close(socket_);
    if (ending_ >= 0) ::close(ending_);
    fail_with(error, path_);
  };
  if (socket_ < 0 || ending_ < 0) give_up(errno, {});
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    give_up(errno, {});
  }
  // A socket takes no connection before listen(), so that the umask opens it to no one meanwhile.
  if (::chmod(temporary.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket_, kWaiting) != 0) {
    give_up(errno, temporary);
  }
  own_ = socket_at(temporary).value_or(FileNumber());
  if (::link(temporary.c_str(), path_.c_str()) != 0) {
    give_up(errno == EEXIST ? EADDRINUSE : errno, temporary);
  }
  ::unlink(temporary.c_str());
  // Signals are for the thread of the server.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    give_up(error.code().value(), path_);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StatSocket::~StatSocket() {
  const std::uint64_t one = 1;
  (void)!::write(ending_, &one, sizeof(one));
  thread_.join();
  // No other file gets this number as long as the socket is open.
  if (socket_at(path_) == own_) ::unlink(path_.c_str());
  ::close(socket_);
  ::close(ending_);
}

void StatSocket::run() {
  std::array<pollfd, 2> entries{{{socket_, POLLIN, 0}, {ending_, POLLIN, 0}}};
  while (true) {
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
    if (entries[1].revents != 0) return;
    if (entries[0].revents == 0) continue;
    const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      // Without descriptors the client stays in the queue, and the loop must not turn meanwhile.
      constexpr int kPause_ms = 200;
      if (::poll(&entries[1], 1, kPause_ms) > 0) return;
      continue;
    }
    try {
      if (may_read(client)) serve_(client, ending_);
    } catch (const std::exception&) {
      // There is no memory for who looks: the server goes on without it.
    }
    ::close(client);
  }
}

// --- Where they are ----------------------------------------------------------------------------

namespace {

std::string user_folder() {
  const char* const folder = ::getenv("XDG_RUNTIME_DIR");
  return folder != nullptr && *folder != '\0' ? std::string(folder) + "/rpcrdma" : std::string();
}

}  // namespace

std::string live_socket_of(const std::string& stat_socket) {
  const fs::path path(stat_socket);
  return path.extension() == kFigures ? fs::path(path).replace_extension(kLive).string()
                                      : stat_socket + kLive;
}

std::string own_stat_folder() {
  const char* const given = ::getenv("RUNTIME_DIRECTORY");  // perhaps several, with colons between
  if (given != nullptr && *given != '\0') return std::string(given, std::strcspn(given, ":"));
  const std::string folder = ::geteuid() == 0 ? kSystemFolder : user_folder();
  std::error_code error;
  if (!folder.empty()) fs::create_directory(folder, error);
  return error ? std::string() : folder;
}

void remove_stale_stat_sockets(const std::string& folder) {
  std::error_code error;
  for (const auto& each : fs::directory_iterator(folder, error)) {
    const fs::path extension = each.path().extension();
    if (extension == kFigures || extension == kLive) remove_stale(each.path().string());
  }
}

namespace {

std::vector<std::string> all_sockets(bool of_mounts) {
  std::vector<std::string> found;
  for (const std::string& folder : {std::string(kSystemFolder), user_folder()}) {
    if (folder.empty()) continue;
    std::error_code error;
    for (const auto& each : fs::directory_iterator(folder, error)) {
      const std::string path = each.path().string();
      const bool is_figures = each.path().extension() == kFigures && each.is_socket(error);
      if (is_figures && path.ends_with(kMountSocket) == of_mounts) found.push_back(path);
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<std::string> all_stat_sockets() {
  return all_sockets(false);
}

std::vector<std::string> all_mount_sockets() {
  return all_sockets(true);
}

int connect_stat_socket(const std::string& path) {
  const int socket = connected_to(path);
  if (socket < 0) fail_with(-socket, path);
  return socket;
}

std::string read_stat_socket(const std::string& path, int stop) {
  const int socket = connect_stat_socket(path);
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    // A server that was stopped says nothing. A signal that makes `stop` readable ends poll()
    // alone.
    std::array<pollfd, 2> entries{{{socket, POLLIN, 0}, {stop, POLLIN, 0}}};
    const int ready =
        stop < 0 ? 1 : ::poll(entries.data(), entries.size(), kServerPatience_s * 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready > 0 && entries[1].revents != 0) {
      ::close(socket);
      return text;
    }
    if (ready == 0) {
      ::close(socket);
      fail_with(ETIMEDOUT, path);
    }
    const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (size > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
      continue;
    }
    const int error = size < 0 ? errno : 0;
    if (error == EINTR) continue;
    ::close(socket);
    if (error != 0) fail_with(error == EAGAIN ? ETIMEDOUT : error, path);
    return text;
  }
}

}  // namespace rpcrdma::tools
