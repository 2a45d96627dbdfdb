// The names of a directory as they come from a server, page by page. The server may lie: it may
// list for ever, with new cookies or with those that it gave before.
#ifndef RPCRDMA_NFS_CLIENT_DIRECTORY_LIST_H_
#define RPCRDMA_NFS_CLIENT_DIRECTORY_LIST_H_

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "nfs/client/failure.h"
#include "nfs/client/mounted.h"
#include "nfs3.h"

namespace nfs {

class DirectoryList {
 public:
  // Takes at most `entries_max` names; a name of many kibibytes counts as several.
  DirectoryList(nfs3::nfs_fh3 directory, std::uint64_t entries_max);

  // Asks for the next page.
  const nfs3::READDIRPLUS3args& next() const noexcept { return next_; }
  // Takes a page. Returns whether it is the last one, or why there will never be one.
  Result<bool> take(nfs3::READDIRPLUS3res& results);
  // Without "." and "..".
  std::vector<Listed>& names() noexcept { return names_; }

 private:
  const std::uint64_t entries_max_;
  std::uint64_t count_ = 0;
  unsigned dots_ = 0;  // "." and ".."
  nfs3::READDIRPLUS3args next_;
  std::unordered_set<nfs3::cookie3> asked_;  // cookies behind which pages were asked for
  std::vector<Listed> names_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_DIRECTORY_LIST_H_
