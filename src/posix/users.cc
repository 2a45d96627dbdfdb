#include "posix/users.h"

#include <grp.h>
#include <pwd.h>
#include <sys/types.h>

#include <cerrno>

namespace rpcrdma::posix {

std::optional<User> find_user(const std::string& name) {
  if (name.empty()) return std::nullopt;
  constexpr std::size_t kBufferMax = std::size_t{1} << 20U;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(4096);
  int error = 0;
  while ((error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found)) ==
             ERANGE &&
         buffer.size() < kBufferMax) {
    buffer.resize(2 * buffer.size());
  }
  if (error != 0 || found == nullptr) return std::nullopt;
  constexpr int kGroupsMax = 1 << 16;
  std::vector<gid_t> groups(32);
  int count = static_cast<int>(groups.size());
  while (::getgrouplist(name.c_str(), entry.pw_gid, groups.data(), &count) < 0) {
    // Groups that nobody has named would be those of root.
    if (count >= kGroupsMax) return std::nullopt;
    groups.resize(static_cast<std::size_t>(count) * 2);
    count = static_cast<int>(groups.size());
  }
  groups.resize(static_cast<std::size_t>(count));
  return User{entry.pw_uid, entry.pw_gid, {groups.begin(), groups.end()}};
}

}  // namespace rpcrdma::posix
