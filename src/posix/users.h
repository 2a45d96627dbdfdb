// The users of this machine.
#ifndef RPCRDMA_POSIX_USERS_H_
#define RPCRDMA_POSIX_USERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rpcrdma::posix {

struct User {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> gids;  // all groups that it is in
};

// nullopt: there is none of this name. May wait for a directory service.
std::optional<User> find_user(const std::string& name);

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_USERS_H_
