// Handles of files, and files by their handles.
#ifndef RPCRDMA_NFS_POSIX_HANDLES_H_
#define RPCRDMA_NFS_POSIX_HANDLES_H_

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

  // Of an open file (O_PATH will do), which was found in the directory under the name; both are
  // empty for the export's directory. nullopt: errno.
  virtual std::optional<InnerHandle> of(const files::File& file, const InnerHandle& directory,
                                        const std::string& name) = 0;
  // The file, opened with O_PATH. Not open: errno, ESTALE if there is no such file any more.
  virtual files::File open(const InnerHandle& handle) = 0;
};

// By name_to_handle_at(2) and open_by_handle_at(2): the file system's own handles, which last as
// long as the file. The second needs CAP_DAC_READ_SEARCH. Null: it does not go here, errno.
std::unique_ptr<Handles> kernel_handles(const files::File& root);

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_HANDLES_H_
