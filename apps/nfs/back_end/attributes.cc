#include "nfs/back_end/attributes.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace nfs {
namespace {

using nfs3::ftype3;
using nfs3::nfsstat3;

ftype3 type_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return ftype3::NF3DIR;
    case S_IFBLK:
      return ftype3::NF3BLK;
    case S_IFCHR:
      return ftype3::NF3CHR;
    case S_IFLNK:
      return ftype3::NF3LNK;
    case S_IFSOCK:
      return ftype3::NF3SOCK;
    case S_IFIFO:
      return ftype3::NF3FIFO;
    default:
      return ftype3::NF3REG;
  }
}

}  // namespace

nfsstat3 status_of(int error) noexcept {
  switch (error) {
    case 0:
      return nfsstat3::NFS3_OK;
    case EPERM:
      return nfsstat3::NFS3ERR_PERM;
    case ENOENT:
      return nfsstat3::NFS3ERR_NOENT;
    case ENXIO:
      return nfsstat3::NFS3ERR_NXIO;
    case EACCES:
    case ETXTBSY:
    case EBUSY:  // something is mounted there, and may be for ever
    case ELOOP:  // a symbolic link stands where a directory or a file is to be
      return nfsstat3::NFS3ERR_ACCES;
    case EEXIST:
      return nfsstat3::NFS3ERR_EXIST;
    case EXDEV:
      return nfsstat3::NFS3ERR_XDEV;
    case ENODEV:
      return nfsstat3::NFS3ERR_NODEV;
    case ENOTDIR:
      return nfsstat3::NFS3ERR_NOTDIR;
    case EISDIR:
      return nfsstat3::NFS3ERR_ISDIR;
    case EINVAL:
    case EOVERFLOW:
      return nfsstat3::NFS3ERR_INVAL;
    case EFBIG:
      return nfsstat3::NFS3ERR_FBIG;
    case ENOSPC:
      return nfsstat3::NFS3ERR_NOSPC;
    case EROFS:
      return nfsstat3::NFS3ERR_ROFS;
    case EMLINK:
      return nfsstat3::NFS3ERR_MLINK;
    case ENAMETOOLONG:
      return nfsstat3::NFS3ERR_NAMETOOLONG;
    case ENOTEMPTY:
      return nfsstat3::NFS3ERR_NOTEMPTY;
    case EDQUOT:
      return nfsstat3::NFS3ERR_DQUOT;
    case ESTALE:
      return nfsstat3::NFS3ERR_STALE;
    case EOPNOTSUPP:
    case ENOSYS:
      return nfsstat3::NFS3ERR_NOTSUPP;
    // These errors pass: the client is to repeat the call.
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
      return nfsstat3::NFS3ERR_JUKEBOX;
    default:
      return nfsstat3::NFS3ERR_IO;
  }
}

nfs3::nfstime3 time_of(const timespec& time) noexcept {
  // NFSv3 has no time before 1970 and none after 2106.
  const auto seconds =
      std::clamp<std::int64_t>(time.tv_sec, 0, std::numeric_limits<std::uint32_t>::max());
  return {static_cast<std::uint32_t>(seconds), static_cast<std::uint32_t>(time.tv_nsec)};
}

timespec time_of(const nfs3::nfstime3& time) noexcept {
  return {static_cast<time_t>(time.seconds), static_cast<long>(time.nseconds)};
}

bool is_time(const nfs3::nfstime3& guard, const timespec& time) noexcept {
  const nfs3::nfstime3 now = time_of(time);
  return guard.seconds == now.seconds && guard.nseconds == now.nseconds;
}

nfs3::fattr3 attributes_of(const struct stat& status, std::uint64_t fsid) noexcept {
  nfs3::fattr3 attributes;
  attributes.type = type_of(status.st_mode);
  attributes.mode = status.st_mode & 07777U;
  attributes.nlink = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(status.st_nlink, std::numeric_limits<std::uint32_t>::max()));
  attributes.uid = status.st_uid;
  attributes.gid = status.st_gid;
  attributes.size = static_cast<std::uint64_t>(status.st_size);
  attributes.used = static_cast<std::uint64_t>(status.st_blocks) * 512;
  attributes.rdev = {major(status.st_rdev), minor(status.st_rdev)};
  attributes.fsid = fsid;
  attributes.fileid = status.st_ino;
  attributes.atime = time_of(status.st_atim);
  attributes.mtime = time_of(status.st_mtim);
  attributes.ctime = time_of(status.st_ctim);
  return attributes;
}

nfs3::post_op_attr after(const struct stat& status, std::uint64_t fsid) {
  nfs3::post_op_attr result;
  result.set_attributes(attributes_of(status, fsid));
  return result;
}

nfs3::pre_op_attr before(const struct stat& status) {
  nfs3::pre_op_attr result;
  result.set_attributes({static_cast<std::uint64_t>(status.st_size), time_of(status.st_mtim),
                         time_of(status.st_ctim)});
  return result;
}

}  // namespace nfs
