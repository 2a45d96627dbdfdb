// A directory of this machine as an export.
//
// Operations run on threads of its pool, as the caller; what needs neither waiting nor the caller's
// identity is done at once (impatience.h). Names are resolved one component at
// a time, below a directory that is open, and by nothing but openat2(2) with RESOLVE_BENEATH, so
// that no name, symbolic link or handle leads out of the export, nor into another file system that
// is mounted in it.
#ifndef RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_
#define RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "nfs/file_system.h"
#include "rpcrdma/error.h"

namespace nfs {
class Workers;
}

namespace nfs::posix {

// The kinds of handles (handles.h).
enum class HandleKind : std::uint8_t {
  kAny,     // the kernel's, else a table
  kKernel,  // the kernel's, or the directory is not exported
  kTable,
};

struct Options {
  std::uint64_t fsid = 0;  // of its attributes
  HandleKind handles = HandleKind::kAny;
  std::string table_path{};           // of a table; empty: in memory
  std::size_t open_files_max = 1024;  // kept open beyond the calls that use them
  // Answers a change before it is on the disk: faster, and lost when the machine loses its power.
  bool is_async = false;
  // Takes notes of what is no trouble, from any thread, each second perhaps. May be empty.
  std::function<void(const std::string&)> inform{};
};

// The pool, for all exports of a process.
std::unique_ptr<Workers> make_workers(std::size_t threads, std::size_t queue_max);

// `handles` and `workers` outlive it. The text says what is wrong with the directory. `why_table`
// becomes why its handles are kept in a table, or empty.
rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open_directory(
    const std::string& directory, const Options& options, const HandleMaker& handles,
    Workers& workers, std::string& why_table);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_
