// Files and trees of an export to this machine; see copier.h.
#ifndef RPCRDMA_NFS_CLIENT_DOWNLOADER_H_
#define RPCRDMA_NFS_CLIENT_DOWNLOADER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/client/copy_run.h"

namespace nfs {

class Downloader final : public CopyRun {
 public:
  using CopyRun::CopyRun;

  rpcrdma::Task<void> all(const std::vector<std::string>& sources, const std::string& target);

 private:
  // Returns the target's directory, and in `name` the copy's name if the target is no directory;
  // nullptr: the failure is noted.
  std::unique_ptr<Folder> target_folder(const std::string& target, bool is_alone,
                                        std::string& name);
  rpcrdma::Task<void> any(Node node, Folder& into, std::string name, std::string path);
  rpcrdma::Task<void> folder(const Node& node, Folder& into, const std::string& name,
                             const std::string& path);
  // nullptr: the failure is noted.
  std::unique_ptr<Folder> make_folder(const Node& node, Folder& into, const std::string& name,
                                      const std::string& path);
  rpcrdma::Task<void> content(Folder& folder, std::vector<Listed>& listed);
  // Tells if the directory of the server is what `into` is here, or one above it.
  rpcrdma::Task<bool> is_copied_into(const Node& node, const Folder* into);
  rpcrdma::Task<void> entry(Listed& listed, Folder& folder);
  rpcrdma::Task<Result<void>> move_content(FileJob& job) override;
  bool give_name(FileJob& job, std::optional<std::string> temporary);
  rpcrdma::Task<void> link(const Node& node, Folder& into, const std::string& name,
                           const std::string& path);
  rpcrdma::Task<void> finish(Folder& folder) override;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_DOWNLOADER_H_
