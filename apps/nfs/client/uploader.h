// Files and trees of this machine to an export; see copier.h.
#ifndef RPCRDMA_NFS_CLIENT_UPLOADER_H_
#define RPCRDMA_NFS_CLIENT_UPLOADER_H_

#include <memory>
#include <string>
#include <vector>

#include "nfs/client/copy_run.h"

namespace nfs {

class Uploader final : public CopyRun {
 public:
  using CopyRun::CopyRun;

  rpcrdma::Task<void> all(const std::vector<std::string>& sources, const std::string& target);

 private:
  // A file here: NAME of an open directory, or a path with AT_FDCWD.
  struct Source {
    int directory;
    std::string name;
    std::string path;  // for messages
    bool follow;
  };
  rpcrdma::Task<Result<Node>> target_folder(const std::string& target, bool is_alone,
                                            std::string& name);
  rpcrdma::Task<void> any(Source source, Folder& into, std::string name);
  rpcrdma::Task<void> folder(const Source& source, const struct stat& status, Folder& into,
                             const std::string& name);
  rpcrdma::Task<void> content(Folder& folder, const std::vector<std::string>& names);
  // Tells if the open directory, of that inode, is `into` or one above it.
  rpcrdma::Task<bool> is_copied_into(int here, std::uint64_t id, const Folder* into);
  rpcrdma::Task<Result<void>> move_content(FileJob& job) override;
  // A name may be taken from a file, not from what is no file.
  enum class There : std::uint8_t { kNothing, kFile, kOther };
  // A file that is there has the permissions that it shall have.
  rpcrdma::Task<Result<There>> there_now(FileJob& job);
  rpcrdma::Task<Result<void>> create(FileJob& job, const std::string& name);
  rpcrdma::Task<Result<void>> fill(FileJob& job);
  // Gives what has the temporary name its own. If that fails, or `done` has, takes it away.
  rpcrdma::Task<Result<void>> put_in_place(const Folder& into, const std::string& temporary,
                                           const std::string& name, Result<void> done);
  rpcrdma::Task<void> link(const Source& source, Folder& into, const std::string& name);
  rpcrdma::Task<Result<void>> make_link(const Folder& into, const std::string& name,
                                        const std::string& target);
  rpcrdma::Task<Result<void>> set(const nfs3::nfs_fh3& there, const Kept& kept, Route route = {});
  rpcrdma::Task<void> finish(Folder& folder) override;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_UPLOADER_H_
