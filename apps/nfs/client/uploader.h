// Files and trees of this machine to an export; see copier.h.
#ifndef RPCRDMA_NFS_CLIENT_UPLOADER_H_
#define RPCRDMA_NFS_CLIENT_UPLOADER_H_

#include <string>
#include <vector>

#include "nfs/client/into_server.h"

namespace nfs {

class Uploader final : public IntoServer {
 public:
  using IntoServer::IntoServer;

  rpcrdma::Task<void> all(const std::vector<std::string>& sources, const std::string& target);

 private:
  // A file here: NAME of an open directory, or a path with AT_FDCWD.
  struct Source {
    int directory;
    std::string name;
    std::string path;  // for messages
    bool follow;
  };
  rpcrdma::Task<void> any(Source source, Folder& into, std::string name);
  rpcrdma::Task<void> folder(const Source& source, const struct stat& status, Folder& into,
                             const std::string& name);
  rpcrdma::Task<void> content(Folder& folder, const std::vector<std::string>& names);
  // Tells if the open directory, of that inode, is `into` or one above it.
  rpcrdma::Task<bool> is_copied_into(int here, std::uint64_t id, const Folder* into);
  rpcrdma::Task<bool> is_source(const FileJob& job, const nfs3::nfs_fh3& there) override;
  rpcrdma::Task<void> link(const Source& source, Folder& into, const std::string& name);
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_UPLOADER_H_
