// libcephfs, with what its header leaves to C.
#ifndef RPCRDMA_NFS_CEPH_API_H_
#define RPCRDMA_NFS_CEPH_API_H_

#include <sys/stat.h>

#include <cstdint>

// Functions take them by value, and for C++ the header only declares them.
struct inodeno_t {
  std::uint64_t val;
};
struct vinodeno_t {
  inodeno_t ino;
  std::uint64_t snapid;
};

#include <cephfs/libcephfs.h>

namespace nfs::ceph {

using Statx = struct ceph_statx;  // there is a function of that name, too
inline constexpr unsigned kAll = CEPH_STATX_ALL_STATS;
inline constexpr std::uint64_t kHead = static_cast<std::uint64_t>(-2);  // what is no snapshot

inline struct stat stat_of(const Statx& from) noexcept {
  struct stat status {};
  status.st_mode = from.stx_mode;
  status.st_nlink = from.stx_nlink;
  status.st_uid = from.stx_uid;
  status.st_gid = from.stx_gid;
  status.st_rdev = from.stx_rdev;
  status.st_ino = from.stx_ino;
  status.st_size = static_cast<off_t>(from.stx_size);
  status.st_blocks = static_cast<blkcnt_t>(from.stx_blocks);
  status.st_atim = from.stx_atime;
  status.st_mtim = from.stx_mtime;
  status.st_ctim = from.stx_ctime;
  return status;
}

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_API_H_
