#include "nfs/posix/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "nfs/posix/impatience.h"

namespace nfs::posix {
namespace {

constexpr std::uint64_t kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;

// Identifies a mount: by its number, if the kernel reports it (5.8), and by the device.
struct Mount {
  std::uint64_t number = 0;
  std::uint32_t major = 0, minor = 0;
  bool operator==(const Mount&) const = default;
};

Mount mount_of(const files::File& file) {
  struct statx status {};
  if (::statx(file.descriptor(), "", AT_EMPTY_PATH, STATX_MNT_ID, &status) != 0) return {};
  const bool has_number = (status.stx_mask & STATX_MNT_ID) != 0;
  return {has_number ? status.stx_mnt_id : 0, status.stx_dev_major, status.stx_dev_minor};
}

// -1: errno. A rename somewhere makes the kernel give up (EAGAIN), which is no answer.
int open_at_2(const files::File& directory, const std::string& path, std::uint64_t flags,
              std::uint64_t resolve = 0) {
  open_how how{};
  how.flags = flags;
  how.resolve =
      resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  long result = -1;
  for (int attempt = 0; attempt < 16; ++attempt) {
    result = ::syscall(SYS_openat2, directory.descriptor(), path.c_str(), &how, sizeof(how));
    if (result >= 0 || (errno != EAGAIN && errno != EINTR) || resolve != 0) break;
  }
  return static_cast<int>(result);
}

}  // namespace

const char* component(const std::string& name) noexcept {
  const bool is_one = name != "." && name != ".." && name.find('/') == std::string::npos;
  return is_one ? name.c_str() : "";
}

files::File open_beneath(const files::File& directory, const std::string& name) {
  if (Impatience::is_on()) {
    files::File known(open_at_2(directory, name, kFlags, RESOLVE_CACHED));
    // Not in memory, a kernel that does not tell (5.12), or one without the call.
    const bool is_answer = known.is_open() || errno == ENOENT || errno == EACCES;
    if (!is_answer) Impatience::give_up();
    return known;
  }
  files::File opened(open_at_2(directory, name, kFlags));
  // Else an old kernel, a filter of system calls, or it went on being renamed.
  if (opened.is_open() || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) return opened;
  // One component, no symbolic link is followed: only what is mounted there may be beyond, another
  // file system or another part of this one.
  opened = files::File(::openat(directory.descriptor(), component(name), static_cast<int>(kFlags)));
  if (opened.is_open() && mount_of(opened) != mount_of(directory)) {
    errno = EXDEV;
    return {};
  }
  return opened;
}

files::File open_directory_beneath(const files::File& directory, const std::string& path) {
  return files::File(open_at_2(directory, path, kFlags | O_DIRECTORY));
}

}  // namespace nfs::posix
