#include "tools/serve_rights.h"

#include <algorithm>

namespace rpcrdma::tools {

bool has_rights(const ServiceUser& user, const FileRights& file, int wanted) {
  const bool is_member = std::ranges::count(user.groups, file.gid) > 0;
  const mode_t bits = user.uid == file.uid ? file.mode >> 6U
                      : is_member          ? file.mode >> 3U
                                           : file.mode;
  return (bits & static_cast<mode_t>(wanted)) == static_cast<mode_t>(wanted);
}

}  // namespace rpcrdma::tools
