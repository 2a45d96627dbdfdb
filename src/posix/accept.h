// The outcome of accept(2).
#ifndef RPCRDMA_POSIX_ACCEPT_H_
#define RPCRDMA_POSIX_ACCEPT_H_

#include <poll.h>

#include <cerrno>

namespace rpcrdma::posix {

// Returns whether accept() failed for one connection, which is gone, so that the next one can be
// taken at once. Else the listening socket, or the system, gives none for a while.
inline bool is_about_one_connection(int error) noexcept {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:  // by a rule of the firewall
    // Linux passes on what the network said of the connection (accept(2)).
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

// Returns whether the system has nothing left for a further connection.
inline bool is_about_resources(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Returns whether a connection waits at a listening socket. Linux says that there is no descriptor
// also where there is no connection.
inline bool has_waiting_connection(int listening) noexcept {
  pollfd waits{listening, POLLIN, 0};
  return ::poll(&waits, 1, 0) != 0;  // an error says nothing
}

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_ACCEPT_H_
