// Files and trees of one server to another one, or to another place at the same; see copier.h.
#ifndef RPCRDMA_NFS_CLIENT_RELAYER_H_
#define RPCRDMA_NFS_CLIENT_RELAYER_H_

#include <string>
#include <vector>

#include "nfs/client/into_server.h"

namespace nfs {

class Relayer final : public IntoServer {
 public:
  Relayer(Mounted& to, const CopyOptions& options, Mounted& from)
      : IntoServer(to, options, &from), from_(from) {}

  rpcrdma::Task<void> all(const std::vector<std::string>& sources, const std::string& target);

 private:
  rpcrdma::Task<void> any(Node node, Folder& into, std::string name, std::string path);
  rpcrdma::Task<void> folder(const Node& node, Folder& into, const std::string& name,
                             const std::string& path);
  rpcrdma::Task<void> entry(const nfs3::nfs_fh3& directory, Listed& listed, Folder& folder);
  rpcrdma::Task<void> link(const Node& node, Folder& into, const std::string& name,
                           const std::string& path);
  // Tells if the directory is what `into` is, or one above it.
  rpcrdma::Task<bool> is_copied_into(const Node& node, const Folder* into);
  // Tells if what has this handle at one server has that one at the other.
  rpcrdma::Task<bool> is_same_there(const nfs3::nfs_fh3& source, const nfs3::nfs_fh3& there);
  rpcrdma::Task<bool> is_source(const FileJob& job, const nfs3::nfs_fh3& there) override;
  rpcrdma::Task<Result<void>> fetch(FileJob& job, std::uint64_t offset,
                                    rpcrdma::MutableBytes into) override;

  Mounted& from_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_RELAYER_H_
