// Files and directories as they are made at a server, wherever they come from; see copier.h.
#ifndef RPCRDMA_NFS_CLIENT_INTO_SERVER_H_
#define RPCRDMA_NFS_CLIENT_INTO_SERVER_H_

#include <memory>
#include <string>

#include "nfs/client/copy_run.h"

namespace nfs {

class IntoServer : public CopyRun {
 public:
  using CopyRun::CopyRun;

 protected:
  // The directory to copy into, and the name of what is copied if the target is none itself.
  // nullptr: the failure is noted. Whoever gets it leaves it.
  rpcrdma::Task<Folder*> open_target(const std::string& target, bool is_alone, std::string& name);
  // Makes a directory of that name in `into`; with an empty name it is `into` itself. The path is
  // that of the source. nullptr: the failure is noted.
  rpcrdma::Task<std::unique_ptr<Folder>> make_folder(const Kept& source, const Folder& into,
                                                     const std::string& name,
                                                     const std::string& path);
  // Tells if a file at the server, which has the number of the source, is the source.
  virtual rpcrdma::Task<bool> is_source(const FileJob& job, const nfs3::nfs_fh3& there) = 0;
  rpcrdma::Task<void> put_link(const std::string& target, const Folder& into,
                               const std::string& name, const std::string& path);

 private:
  rpcrdma::Task<Result<Node>> target_folder(const std::string& target, bool is_alone,
                                            std::string& name);
  rpcrdma::Task<Result<void>> move_content(FileJob& job) override;
  // A name may be taken from a file, not from what is no file.
  enum class There : std::uint8_t { kNothing, kFile, kSource, kOther };
  // A file that is there has the permissions that it shall have.
  rpcrdma::Task<Result<There>> there_now(FileJob& job);
  rpcrdma::Task<Result<void>> create(FileJob& job, const std::string& name);
  rpcrdma::Task<Result<void>> fill(FileJob& job);
  // Gives what is whole its name, unless something has got that meanwhile; false: this server
  // cannot do so.
  rpcrdma::Task<Result<bool>> name_what_is_new(FileJob& job, const std::string& temporary);
  rpcrdma::Task<void> take_away(const Folder& into, const std::string& temporary);
  // Gives what has the temporary name its own. If that fails, or `done` has, takes it away.
  rpcrdma::Task<Result<void>> put_in_place(const Folder& into, const std::string& temporary,
                                           const std::string& name, Result<void> done);
  rpcrdma::Task<Result<void>> make_link(const Folder& into, const std::string& name,
                                        const std::string& target);
  rpcrdma::Task<Result<void>> set(const nfs3::nfs_fh3& there, const Kept& kept, Route route = {});
  rpcrdma::Task<void> finish(Folder& folder) override;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_INTO_SERVER_H_
