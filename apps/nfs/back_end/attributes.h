// Translates this machine's file attributes and errors into those of RFC 1813.
#ifndef RPCRDMA_NFS_BACK_END_ATTRIBUTES_H_
#define RPCRDMA_NFS_BACK_END_ATTRIBUTES_H_

#include <sys/stat.h>

#include <cstdint>

#include "nfs3.h"

namespace nfs {

nfs3::nfsstat3 status_of(int error) noexcept;

// `fsid` is the export's, which stays the same over restarts, as st_dev does not.
nfs3::fattr3 attributes_of(const struct stat& status, std::uint64_t fsid) noexcept;
nfs3::post_op_attr after(const struct stat& status, std::uint64_t fsid);
nfs3::pre_op_attr before(const struct stat& status);

nfs3::nfstime3 time_of(const timespec& time) noexcept;
timespec time_of(const nfs3::nfstime3& time) noexcept;
// Compares the file's time with that of a guard (RFC 1813 section 3.3.2).
bool is_time(const nfs3::nfstime3& guard, const timespec& time) noexcept;

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_ATTRIBUTES_H_
