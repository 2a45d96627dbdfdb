#include "support/descriptors.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace rpcrdma::test {

std::atomic<int> descriptors_left = kManyDescriptors;

std::vector<int> listening_descriptors() {
  std::vector<int> found;
  for (int fd = 0; fd < 256; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) {
      found.push_back(fd);
    }
  }
  return found;
}

}  // namespace rpcrdma::test

extern "C" int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  // Linux takes a descriptor before it looks for a connection.
  if (rpcrdma::test::descriptors_left == 0) {
    errno = EMFILE;
    return -1;
  }
  const auto accepted = static_cast<int>(::syscall(SYS_accept4, socket, address, size, flags));
  if (accepted >= 0) --rpcrdma::test::descriptors_left;
  return accepted;
}
