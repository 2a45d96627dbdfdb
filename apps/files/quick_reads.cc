#include "files/quick_reads.h"

#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace files {

QuickReads::QuickReads(int directory) noexcept {
  constexpr std::array<unsigned, 5> kKnown{0xef53, 0x58465342, 0x9123683e, 0x01021994, 0xf2f52010};
  struct statfs kind {};
  if (::fstatfs(directory, &kind) == 0) {
    keeps_inodes_ = std::ranges::find(kKnown, static_cast<unsigned>(kind.f_type)) != kKnown.end();
    keeps_data_ = kind.f_type == TMPFS_MAGIC;
  }
  struct statvfs mount {};
  if (::fstatvfs(directory, &mount) == 0) mount_flags_ = mount.f_flag;
}

bool QuickReads::sets_time(const struct stat& status) const noexcept {
  if ((mount_flags_ & ST_NOATIME) != 0) return false;
  if ((mount_flags_ & ST_RELATIME) == 0) return true;
  constexpr std::int64_t kDay = 86'400;
  const auto is_before = [&](const timespec& other) {
    return std::pair(status.st_atim.tv_sec, status.st_atim.tv_nsec) <=
           std::pair(other.tv_sec, other.tv_nsec);
  };
  return is_before(status.st_mtim) || is_before(status.st_ctim) ||
         status.st_atim.tv_sec + kDay <= std::time(nullptr);
}

std::optional<std::size_t> read_if_in_memory(const File& file, rpcrdma::MutableBytes into,
                                             std::uint64_t offset, std::uint64_t size) noexcept {
  const std::uint64_t left = offset < size ? size - offset : 0;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left));
  const iovec part{into.data(), wanted};
  if (::preadv2(file.descriptor(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) !=
      static_cast<ssize_t>(wanted)) {
    return std::nullopt;
  }
  return wanted;
}

}  // namespace files
