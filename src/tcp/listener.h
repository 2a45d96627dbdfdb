// Takes TCP connections, and those of Unix sockets.
#ifndef RPCRDMA_TCP_LISTENER_H_
#define RPCRDMA_TCP_LISTENER_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "posix/address.h"
#include "posix/fd.h"
#include "posix/reactor.h"
#include "tcp/accepted.h"

namespace rpcrdma::tcp {

// The file that a Unix socket has made; goes with the object, unless another one is in its place.
class SocketFile {
 public:
  SocketFile() = default;
  // Takes over a file that this process has just made.
  explicit SocketFile(std::string path) noexcept;
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile();
  // Leaves the file where it is.
  void release() noexcept { path_.clear(); }

 private:
  std::string path_;  // empty: none
  dev_t device_ = 0;
  ino_t number_ = 0;
};

class Listener final : private posix::Watched {
 public:
  // Port 0 takes a free one. `share_port`: other sockets of the user may listen there too
  // (SO_REUSEPORT); not at a path. A path where there is a file already is EADDRINUSE: whether its
  // server is gone is not for us to say. The reactor outlives it.
  static Expected<std::unique_ptr<Listener>, posix::SystemError> open(posix::Reactor& reactor,
                                                                      const posix::Address& address,
                                                                      bool share_port = false);
  // Takes a stream socket that listens already; another one is EINVAL or ENOTSOCK.
  static Expected<std::unique_ptr<Listener>, posix::SystemError> take_over(posix::Reactor& reactor,
                                                                           posix::Fd socket);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The next connection. nullopt: ask again when the reactor has dispatched. When the
  // system has no more descriptors it rests for a while: the next attempt would fail as well.
  std::optional<Accepted> accept();

  // Returns why accept() has rested, an errno, once a second as long as that lasts. Clients wait
  // meanwhile.
  std::optional<int> poll_failure() noexcept { return std::exchange(failure_, std::nullopt); }

  // "ADDR:PORT" with the real port, or the path. Valid as long as *this.
  std::string_view address() const noexcept { return address_; }

 private:
  Listener(posix::Reactor& reactor, posix::Fd socket, SocketFile file, std::string address);
  static Expected<std::unique_ptr<Listener>, posix::SystemError> watch(posix::Reactor& reactor,
                                                                       posix::Fd socket,
                                                                       SocketFile file);
  // Changes only: a connection that nobody accepts does not wake anybody again and again.
  void handle_ready(std::uint32_t /*events*/) override { ready_ = true; }
  void handle_deadline() override { ready_ = true; }

  posix::Reactor& reactor_;
  posix::Fd socket_;
  SocketFile file_;  // goes before the socket: a file without one would be left otherwise
  const std::string address_;
  bool ready_ = false;
  Instant reports_at_{};  // when a lack of descriptors is worth a further report
  std::optional<int> failure_;
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_LISTENER_H_
