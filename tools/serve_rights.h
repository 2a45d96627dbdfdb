// The rights to files that the user of a service has.
#ifndef RPCRDMA_TOOLS_SERVE_RIGHTS_H_
#define RPCRDMA_TOOLS_SERVE_RIGHTS_H_

#include <sys/types.h>

#include <vector>

namespace rpcrdma::tools {

struct ServiceUser {
  uid_t uid = 0;
  std::vector<gid_t> groups{};
};

// The rights of a file, as stat(2) has them.
struct FileRights {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0;
};

// Returns whether the user has each of the rights in `wanted` (R_OK, W_OK, X_OK). As in the kernel,
// an owner has the owner's bits alone, and a member the group's. Knows no access control lists.
bool has_rights(const ServiceUser& user, const FileRights& file, int wanted);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_RIGHTS_H_
