#include "tools/output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <filesystem>

namespace rpcrdma::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;            // as the kernel
constexpr std::size_t kPieceMax = 4096;  // PIPE_BUF: what a pipe that poll() calls writable takes
constexpr int kAttempts = 100;           // at a name that nothing has

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// N of /proc/self/fd/N, however it is said (/dev/fd/N, /proc/PID/fd/N).
std::optional<int> own_descriptor(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(parent_of(path), error);
  if (error || folder != fmt::format("/proc/{}/fd", ::getpid())) return std::nullopt;
  const std::string number = path.filename().string();
  int descriptor = -1;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) return std::nullopt;
  return descriptor;
}

bool is_in_proc(const fs::path& path) {
  struct statfs status {};
  return ::statfs(parent_of(path).c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

// Returns the target of a link; nullopt: the path is no link (errno is EINVAL, or ENOENT).
std::optional<fs::path> link_target(const fs::path& path) {
  std::array<char, PATH_MAX> text;
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  const fs::path target(std::string(text.data(), static_cast<std::size_t>(size)));
  return target.is_absolute() ? target : path.parent_path() / target;
}

std::string random_text() {
  std::array<unsigned char, 8> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

mode_t mode_by_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// --- A name that signals remove ------------------------------------------------------------------

std::array<char, PATH_MAX> name_to_remove;
std::atomic<bool> has_name_to_remove = false;

extern "C" void remove_name_and_die(int number) {
  if (has_name_to_remove) ::unlink(name_to_remove.data());
  ::raise(number);  // the handler is reset: the process ends as without one
}

void remove_on_signals(const std::string& name) {
  if (name.size() >= name_to_remove.size()) return;
  std::copy(name.begin(), name.end(), name_to_remove.begin());
  name_to_remove[name.size()] = '\0';
  has_name_to_remove = true;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    ::sigaction(number, nullptr, &old);
    if (old.sa_handler != SIG_DFL) continue;  // nohup ignores it, for one
    struct sigaction action {};
    action.sa_handler = remove_name_and_die;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

// A FIFO is not opened: its reader would take the end of that for the end of everything.
std::string problem_with_new_file(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode)) return std::strerror(EISDIR);
  if (!is_there && errno != ENOENT) return std::strerror(errno);
  const bool is_writable = is_there ? ::access(path.c_str(), W_OK) == 0
                                    : ::access(parent_of(path).c_str(), W_OK | X_OK) == 0;
  return is_writable ? std::string() : std::strerror(errno);
}

Output::Output(const std::string& path, const std::string& name, Temporary temporary)
    : path_(path) {
  std::error_code error;
  if (fs::is_directory(path_, error)) path_ = (fs::path(path_) / name).string();
  open(temporary);
  if (!file_.is_open() && problem_.empty()) problem_ = std::strerror(errno);
}

Output::~Output() {
  remove_name();
}

void Output::open(Temporary temporary) {
  if (path_ == "-") {
    is_stdout_ = true;
    file_ = files::File(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  } else {
    struct stat status {};
    const bool is_there = ::stat(path_.c_str(), &status) == 0;
    if (!is_there && errno != ENOENT) return;
    fs::path target = path_;
    for (int links = 0;; ++links) {
      if (const auto descriptor = own_descriptor(target)) {
        is_stdout_ = *descriptor == STDOUT_FILENO;
        file_ = files::File(::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0));
        break;
      }
      const auto next = is_in_proc(target) ? std::nullopt : link_target(target);
      if (!next && is_there && (is_in_proc(target) || !S_ISREG(status.st_mode))) {
        file_ = files::File(path_, O_WRONLY | O_NOCTTY);
        break;
      }
      if (!next) {
        if (is_there) mode_ = status.st_mode & 0777;
        target_ = target.string();
        return open_temporary(parent_of(target).string(), temporary);
      }
      if (links == kLinksMax) {
        errno = ELOOP;
        return;
      }
      target = *next;
    }
  }
  const auto status = file_.is_open() ? file_.status() : std::nullopt;
  is_slow_ = status && !S_ISREG(status->st_mode);
}

void Output::open_temporary(const std::string& directory, Temporary kind) {
  if (mode_ && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) return;
  const mode_t mode = mode_.value_or(mode_by_umask());
  if (kind == Temporary::kAny) {
    file_ = files::File(directory, O_WRONLY | O_TMPFILE, mode);
    // A name is given to it by way of /proc.
    const std::string link = fmt::format("/proc/self/fd/{}", file_.descriptor());
    if (file_.is_open() && ::access(link.c_str(), F_OK) != 0) file_ = files::File();
  }
  for (int i = 0; !file_.is_open() && i < kAttempts; ++i) {
    temporary_ = (fs::path(directory) / (".rpcrdma-" + random_text())).string();
    file_ = files::File(temporary_, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (!file_.is_open() && errno != EEXIST) break;
  }
  if (!file_.is_open()) {
    problem_ = fmt::format("no file can be made in {}: {}", directory, std::strerror(errno));
    temporary_.clear();
    return;
  }
  if (!temporary_.empty()) remove_on_signals(temporary_);
  ::fchmod(file_.descriptor(), mode);  // some file systems forget the umask, some the mode
}

bool Output::give_name(const std::string& name) const {
  const std::string link = fmt::format("/proc/self/fd/{}", file_.descriptor());
  return ::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

// Gives the file without a name a free name in the same directory.
bool Output::take_name() {
  for (int i = 0; i < kAttempts; ++i) {
    const std::string name =
        (fs::path(parent_of(target_)) / (".rpcrdma-" + random_text())).string();
    if (give_name(name)) {
      temporary_ = name;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

void Output::remove_name() noexcept {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  has_name_to_remove = false;
  temporary_.clear();
}

bool Output::write(Bytes data, const Wait& wait) {
  while (!data.empty()) {
    const Bytes piece = is_slow_ ? data.first(std::min(data.size(), kPieceMax)) : data;
    if (is_slow_) wait(file_.descriptor());
    const ssize_t count = ::write(file_.descriptor(), piece.data(), piece.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return false;
    data = data.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool Output::finish() {
  if (target_.empty()) return true;
  if (!file_.flush()) return false;
  if (temporary_.empty()) {
    // A place that is free is taken at once; rename() replaces, which linkat() cannot.
    if (!mode_ && give_name(target_)) return true;
    if (!take_name()) return false;
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return false;
  temporary_.clear();
  has_name_to_remove = false;
  return true;
}

}  // namespace rpcrdma::tools
