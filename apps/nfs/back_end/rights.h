// Decides what a caller may do with a file, as RFC 1813 requires of servers.
#ifndef RPCRDMA_NFS_BACK_END_RIGHTS_H_
#define RPCRDMA_NFS_BACK_END_RIGHTS_H_

#include <sys/stat.h>

#include <cstdint>

#include "nfs/file_system.h"
#include "nfs3.h"

namespace nfs {

enum Right : unsigned { kExecute = 1, kWrite = 2, kRead = 4 };

// Returns whether owner, group and mode permit the access; looks at nothing else.
bool permits(const struct stat& status, const Caller& caller, unsigned rights) noexcept;

// NFS3ERR_ISDIR or NFS3ERR_INVAL of what has no data.
nfs3::nfsstat3 must_be_regular(const struct stat& status) noexcept;

// Refuses a WRITE whose data is not as long as its count, or that ends beyond the largest file.
nfs3::nfsstat3 check(const nfs3::WRITE3args& args) noexcept;

bool sets_times(const nfs3::sattr3& attributes) noexcept;
// Returns whether only times are set, and to the server's time, and perhaps the size.
bool touches_alone(const nfs3::sattr3& attributes) noexcept;

// `may(rights)`: what the back end says of the caller and this file.

// Clients check a file's mode only when they open it. The mode may change afterwards, so the owner
// may go on reading. A caller that may execute a file has to be able to load it.
template <class May>
nfs3::nfsstat3 may_read_data(const struct stat& status, const Caller& caller, const May& may) {
  if (caller.uid == status.st_uid) return nfs3::nfsstat3::NFS3_OK;
  const nfs3::nfsstat3 refused = may(kRead);
  return refused == nfs3::nfsstat3::NFS3_OK ? refused : may(kExecute);
}

template <class May>
nfs3::nfsstat3 may_write_data(const struct stat& status, const Caller& caller, const May& may) {
  return caller.uid == status.st_uid ? nfs3::nfsstat3::NFS3_OK : may(kWrite);
}

// A caller that is not the owner may set both times to now if it may write. A client that opens an
// existing file anew sets one of them.
template <class May>
nfs3::nfsstat3 may_set(const struct stat& status, const Caller& caller,
                       const nfs3::sattr3& attributes, const May& may) {
  if (caller.uid == 0 || caller.uid == status.st_uid) return nfs3::nfsstat3::NFS3_OK;
  if (!touches_alone(attributes)) return nfs3::nfsstat3::NFS3ERR_PERM;
  return sets_times(attributes) ? may(kWrite) : nfs3::nfsstat3::NFS3_OK;
}

// Finds what chmod(2), chown(2) and utimensat(2) forbid this user: others than root set mode,
// owner, group and times of their own files alone, give none away, and only to a group that they
// are in.
nfs3::nfsstat3 may_own(const struct stat& status, const Caller& caller,
                       const nfs3::sattr3& attributes) noexcept;
bool is_in_group(const Caller& caller, std::uint32_t gid) noexcept;

// The answer of ACCESS.
template <class May>
std::uint32_t granted(std::uint32_t wanted, const struct stat& status, const May& may) {
  const bool is_directory = S_ISDIR(status.st_mode);
  const auto allows = [&](unsigned rights) { return may(rights) == nfs3::nfsstat3::NFS3_OK; };
  std::uint32_t granted = 0;
  if ((wanted & nfs3::ACCESS3_READ) != 0 && allows(kRead)) granted |= nfs3::ACCESS3_READ;
  constexpr std::uint32_t kChanges = nfs3::ACCESS3_MODIFY | nfs3::ACCESS3_EXTEND;
  if ((wanted & (kChanges | nfs3::ACCESS3_DELETE)) != 0 &&
      allows(is_directory ? kWrite | kExecute : kWrite)) {
    granted |= wanted & (is_directory ? kChanges | nfs3::ACCESS3_DELETE : kChanges);
  }
  const std::uint32_t entering = is_directory ? nfs3::ACCESS3_LOOKUP : nfs3::ACCESS3_EXECUTE;
  if ((wanted & entering) != 0 && allows(kExecute)) granted |= entering;
  return granted;
}

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_RIGHTS_H_
