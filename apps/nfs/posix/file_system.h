// A directory of this machine as an export.
//
// Every operation runs on a thread of its pool, as the caller. Names are resolved one component at
// a time, below a directory that is open, and by nothing but openat2(2) with RESOLVE_BENEATH, so
// that no name, symbolic link or handle leads out of the export, nor into another file system that
// is mounted in it.
#ifndef RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_
#define RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "nfs/file_system.h"
#include "rpcrdma/error.h"

namespace nfs::posix {

class Workers;

struct Options {
  std::uint64_t fsid = 0;             // of its attributes
  std::size_t open_files_max = 1024;  // kept open beyond the calls that use them
  // Answers a change before it is on the disk: faster, and lost when the machine loses its power.
  bool is_async = false;
};

// The pool, for all exports of a process.
std::unique_ptr<Workers> make_workers(std::size_t threads, std::size_t queue_max);

// `handles` and `workers` outlive it. The text says what is wrong with the directory.
rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open_directory(
    const std::string& directory, const Options& options, const HandleMaker& handles,
    Workers& workers);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_
