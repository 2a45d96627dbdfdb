// A directory of this machine as an export.
//
// Operations run on threads of a pool of its own, as the caller; what needs neither waiting nor the
// caller's identity is done at once (impatience.h). Names are resolved one component at a time,
// below a directory that is open, and by nothing but openat2(2) with RESOLVE_BENEATH, so that no
// name, symbolic link or handle leads out of the export, nor into another file system that is
// mounted in it.
#ifndef RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_
#define RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "nfs/file_system.h"
#include "rpcrdma/error.h"

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
  std::size_t workers = 16;           // threads that wait for disks for one host, at most
  std::size_t waiting_max = 4096;     // calls that wait for one of them
  std::chrono::seconds patience{10};  // as in Workers::Settings
  // Answers a change before it is on the disk: faster, and lost when the machine loses its power.
  bool is_async = false;
  // Takes notes of what is no trouble, from any thread, each second perhaps. May be empty.
  std::function<void(const std::string&)> inform{};
};

// `handles` outlives it. The text says what is wrong with the directory. `why_table`
// becomes why its handles are kept in a table, or empty.
rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open_directory(
    const std::string& directory, const Options& options, const HandleMaker& handles,
    std::string& why_table);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_FILE_SYSTEM_H_
