#include "files/host_number.h"

#include <cstddef>
#include <functional>

namespace files {

std::uint64_t number_of_host(std::string_view peer) noexcept {
  // A peer over a Unix socket is its user, who can have any number of processes.
  const std::size_t process = peer.find(", process ");
  const std::size_t end = process != peer.npos ? process : peer.rfind(':');
  return std::hash<std::string_view>()(peer.substr(0, end));
}

}  // namespace files
