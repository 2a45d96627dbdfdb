#include "files/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace files {
namespace {

constexpr int kLinksMax = 40;  // as the kernel
constexpr int kAttempts = 16;  // when something is renamed at the same time

// Puts the components of a path in front of the rest, without empty ones and ".".
void add_components(std::deque<std::string>& rest, std::string_view path) {
  std::vector<std::string> components;
  while (!path.empty()) {
    const std::string_view next = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), next.size() + 1));
    if (!next.empty() && next != ".") components.emplace_back(next);
  }
  rest.insert(rest.begin(), components.begin(), components.end());
}

// Returns the target of the link; nullopt: errno.
std::optional<std::string> read_link(const File& link) {
  std::array<char, PATH_MAX> text;
  const ssize_t size = ::readlinkat(link.descriptor(), "", text.data(), text.size());
  if (size < 0) return std::nullopt;
  if (size > 0 && text[0] != '/') return std::string(text.data(), static_cast<std::size_t>(size));
  errno = EXDEV;
  return std::nullopt;
}

File failed(int error) {
  errno = error;
  return File();
}

// Step by step, never through a link, so that nothing can be exchanged on the way.
File open_by_hand(int directory, const std::string& path, int flags) {
  if (path.starts_with('/')) return failed(EXDEV);
  std::vector<File> way;  // from the directory to where we are
  std::deque<std::string> rest;
  add_components(rest, path);
  for (int links = 0; !rest.empty();) {
    const std::string next = std::move(rest.front());
    rest.pop_front();
    if (next == "..") {
      if (way.empty()) return failed(EXDEV);
      way.pop_back();
      continue;
    }
    const int here = way.empty() ? directory : way.back().descriptor();
    File found(::openat(here, next.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    const auto status = found.is_open() ? found.status() : std::nullopt;
    if (!status) return File();
    if (S_ISLNK(status->st_mode)) {
      if (++links > kLinksMax) return failed(ELOOP);
      const auto target = read_link(found);
      if (!target) return File();
      add_components(rest, *target);
    } else if (rest.empty()) {
      return File(::openat(here, next.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
    } else {
      way.push_back(std::move(found));  // if it is no directory, the next step says so
    }
  }
  const int here = way.empty() ? directory : way.back().descriptor();
  return File(::openat(here, ".", flags | O_CLOEXEC));
}

// Not open: errno.
File open_by_kernel(int directory, const std::string& path, int flags, unsigned resolve) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long result = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof(how));
  return result >= 0 ? File(static_cast<int>(result)) : File();
}

}  // namespace

File open_beneath(int directory, const std::string& path, int flags, Resolving resolving) {
  if (resolving == Resolving::kInMemory) {
    return open_by_kernel(directory, path, flags, RESOLVE_CACHED | RESOLVE_NO_XDEV);
  }
  for (int i = 0; resolving == Resolving::kAuto && i < kAttempts; ++i) {
    File opened = open_by_kernel(directory, path, flags, 0);
    if (opened.is_open()) return opened;
    if (errno == ENOSYS || errno == EPERM) break;  // an old kernel, or a seccomp filter
    if (errno != EAGAIN && errno != EINTR) return File();
  }
  return open_by_hand(directory, path, flags);
}

}  // namespace files
