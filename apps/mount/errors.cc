#include "mount/errors.h"

#include <cerrno>

namespace mounts {

int error_of(nfs3::nfsstat3 status) noexcept {
  using nfs3::nfsstat3;
  switch (status) {
    case nfsstat3::NFS3_OK:
      return 0;
    // RFC 1813 took these numbers from the system of its authors; most are Linux's, too.
    case nfsstat3::NFS3ERR_PERM:
      return EPERM;
    case nfsstat3::NFS3ERR_NOENT:
      return ENOENT;
    case nfsstat3::NFS3ERR_NXIO:
      return ENXIO;
    case nfsstat3::NFS3ERR_ACCES:
      return EACCES;
    case nfsstat3::NFS3ERR_EXIST:
      return EEXIST;
    case nfsstat3::NFS3ERR_XDEV:
      return EXDEV;
    case nfsstat3::NFS3ERR_NODEV:
      return ENODEV;
    case nfsstat3::NFS3ERR_NOTDIR:
      return ENOTDIR;
    case nfsstat3::NFS3ERR_ISDIR:
      return EISDIR;
    case nfsstat3::NFS3ERR_INVAL:
    case nfsstat3::NFS3ERR_BADTYPE:
      return EINVAL;
    case nfsstat3::NFS3ERR_FBIG:
      return EFBIG;
    case nfsstat3::NFS3ERR_NOSPC:
      return ENOSPC;
    case nfsstat3::NFS3ERR_ROFS:
      return EROFS;
    case nfsstat3::NFS3ERR_MLINK:
      return EMLINK;
    case nfsstat3::NFS3ERR_NAMETOOLONG:
      return ENAMETOOLONG;
    case nfsstat3::NFS3ERR_NOTEMPTY:
      return ENOTEMPTY;
    case nfsstat3::NFS3ERR_DQUOT:
      return EDQUOT;
    case nfsstat3::NFS3ERR_STALE:
    case nfsstat3::NFS3ERR_BADHANDLE:
      return ESTALE;
    case nfsstat3::NFS3ERR_REMOTE:
      return EREMOTE;
    case nfsstat3::NFS3ERR_NOTSUPP:
      return EOPNOTSUPP;
    case nfsstat3::NFS3ERR_JUKEBOX:  // all the time that the call had
      return ETIMEDOUT;
    case nfsstat3::NFS3ERR_IO:
    case nfsstat3::NFS3ERR_NOT_SYNC:
    case nfsstat3::NFS3ERR_BAD_COOKIE:
    case nfsstat3::NFS3ERR_TOOSMALL:
    case nfsstat3::NFS3ERR_SERVERFAULT:
      break;
  }
  return EIO;
}

int error_of(const nfs::Failure& why) noexcept {
  if (why.error) {
    if (why.error->code == rpcrdma::Errc::kDenied) return EACCES;
    return why.error->code == rpcrdma::Errc::kTimedOut ? ETIMEDOUT : EIO;
  }
  return why.local.empty() ? error_of(why.status) : EIO;
}

}  // namespace mounts
