// The only way by which names are resolved: one component of a directory that is open, to nothing
// outside of it and to no other file system.
#ifndef RPCRDMA_NFS_POSIX_BENEATH_H_
#define RPCRDMA_NFS_POSIX_BENEATH_H_

#include <string>

#include "files/file.h"

namespace nfs::posix {

// The entry, opened with O_PATH; a symbolic link itself, not what it leads to. Not open: errno,
// EXDEV if something else is mounted there.
files::File open_beneath(const files::File& directory, const std::string& name);
// Does the same for a directory further down, by a path of several components.
files::File open_directory_beneath(const files::File& directory, const std::string& path);

// Returns a name for system calls that change something, which would follow a path to anywhere: the
// name itself if it has one component, else one that no file has. The service has checked it
// before: two walls stand between a client and every file of this machine.
const char* component(const std::string& name) noexcept;

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_BENEATH_H_
