#include "nfs/back_end/rights.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace nfs {

bool is_in_group(const Caller& caller, std::uint32_t gid) noexcept {
  return caller.gid == gid || std::ranges::find(caller.groups, gid) != caller.groups.end();
}

bool permits(const struct stat& status, const Caller& caller, unsigned rights) noexcept {
  if (caller.uid == 0) return true;
  unsigned shift = 0;
  if (caller.uid == status.st_uid) {
    shift = 6;
  } else if (is_in_group(caller, status.st_gid)) {
    shift = 3;
  }
  return ((status.st_mode >> shift) & rights) == rights;
}

nfs3::nfsstat3 must_be_regular(const struct stat& status) noexcept {
  if (S_ISREG(status.st_mode)) return nfs3::nfsstat3::NFS3_OK;
  return S_ISDIR(status.st_mode) ? nfs3::nfsstat3::NFS3ERR_ISDIR : nfs3::nfsstat3::NFS3ERR_INVAL;
}

nfs3::nfsstat3 check(const nfs3::WRITE3args& args) noexcept {
  constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();
  if (args.count != args.data.size()) return nfs3::nfsstat3::NFS3ERR_INVAL;
  if (args.offset > kSizeMax || args.data.size() > kSizeMax - args.offset) {
    return nfs3::nfsstat3::NFS3ERR_FBIG;
  }
  return nfs3::nfsstat3::NFS3_OK;
}

bool sets_times(const nfs3::sattr3& attributes) noexcept {
  return attributes.atime.set_it() != nfs3::time_how::DONT_CHANGE ||
         attributes.mtime.set_it() != nfs3::time_how::DONT_CHANGE;
}

bool touches_alone(const nfs3::sattr3& attributes) noexcept {
  return attributes.atime.set_it() != nfs3::time_how::SET_TO_CLIENT_TIME &&
         attributes.mtime.set_it() != nfs3::time_how::SET_TO_CLIENT_TIME &&
         attributes.mode.mode() == nullptr && attributes.uid.uid() == nullptr &&
         attributes.gid.gid() == nullptr;
}

nfs3::nfsstat3 may_own(const struct stat& status, const Caller& caller,
                       const nfs3::sattr3& attributes) noexcept {
  if (caller.uid == 0) return nfs3::nfsstat3::NFS3_OK;
  const auto *const uid = attributes.uid.uid(), *const gid = attributes.gid.gid();
  if (caller.uid != status.st_uid && !touches_alone(attributes)) {
    return nfs3::nfsstat3::NFS3ERR_PERM;
  }
  if (uid != nullptr && *uid != status.st_uid) return nfs3::nfsstat3::NFS3ERR_PERM;
  if (gid != nullptr && *gid != status.st_gid && !is_in_group(caller, *gid)) {
    return nfs3::nfsstat3::NFS3ERR_PERM;
  }
  return nfs3::nfsstat3::NFS3_OK;
}

}  // namespace nfs
