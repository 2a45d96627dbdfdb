// Handles of files, and files by their handles.
#ifndef RPCRDMA_NFS_POSIX_HANDLES_H_
#define RPCRDMA_NFS_POSIX_HANDLES_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "files/file.h"
#include "nfs/posix/inner_handle.h"
#include "rpcrdma/error.h"

namespace nfs::posix {

// Used by many threads at once.
class Handles {
 public:
  virtual ~Handles() = default;

  // Returns the handle of an open file (O_PATH is enough), which was found in the directory under
  // the name; both are empty for the export's directory. nullopt: errno.
  virtual std::optional<InnerHandle> of(const files::File& file, const InnerHandle& directory,
                                        const std::string& name) = 0;
  // Opens the file with O_PATH. If the result is not open, errno says why: ESTALE if the file no
  // longer exists.
  virtual files::File open(const InnerHandle& handle) = 0;
  // Returns whether of() never waits for a disk.
  virtual bool is_quick() const noexcept { return false; }
  // Calls `rename`, which on success (0) puts the file into that directory under that name. No
  // other call sees the one without the other.
  virtual int rename(const std::function<int()>& rename, const std::optional<InnerHandle>& /*file*/,
                     const InnerHandle& /*directory*/, const std::string& /*name*/) {
    return rename();
  }
  // No name is left of the file.
  virtual void removed(const InnerHandle& /*file*/) {}
};

// The kernel's own handle of an open file (O_PATH will do), which takes no rights. nullopt: errno.
std::optional<InnerHandle> kernel_handle_of(const files::File& file);

// Uses name_to_handle_at(2) and open_by_handle_at(2): the file system's own handles, which last as
// long as the file. The second needs CAP_DAC_READ_SEARCH. Null, with errno: not supported here.
std::unique_ptr<Handles> kernel_handles(const files::File& root);

// Keeps a table in the file `path`, made if it is not there, of where each file was seen last:
// needs no rights and nothing of the file system. A handle is valid while the file stays where it
// is, or is moved through this server; else it is stale until the file is looked up again, as when
// the name by which it was found is removed and others are left. With the same table it outlasts a
// restart. Empty `path`: in memory. The error text says what is wrong with the table.
rpcrdma::Expected<std::unique_ptr<Handles>, std::string> table_handles(const files::File& root,
                                                                       const std::string& path);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_HANDLES_H_
