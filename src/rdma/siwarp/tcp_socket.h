// Non-blocking TCP sockets.
#ifndef RPCRDMA_RDMA_SIWARP_TCP_SOCKET_H_
#define RPCRDMA_RDMA_SIWARP_TCP_SOCKET_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "posix/address.h"
#include "posix/fd.h"
#include "rdma/siwarp/capture.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rdma::siwarp {

struct IoResult {
  enum class Kind : std::uint8_t {
    kBytes,  // `size` bytes, at least one
    kWouldBlock,
    kEnd,    // the peer closed its direction
    kError,  // see `error`
  };
  Kind kind = Kind::kWouldBlock;
  std::size_t size = 0;
  int error = 0;  // errno
};

// One TCP connection. All calls return at once.
class TcpSocket {
 public:
  static constexpr std::size_t kRoomMax = 128;  // spans in one call

  TcpSocket() = default;
  explicit TcpSocket(posix::Fd fd) noexcept : fd_(std::move(fd)) {}

  int fd() const noexcept { return fd_.value(); }
  posix::Fd release() noexcept { return std::move(fd_); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // No delay; buffers of that many bytes unless 0.
  void configure(int buffer_size) noexcept;
  // Tunes the socket for loopback, which has no network to be gentle with, and none to fill: BBR
  // paces, and halved the rate of RDMA Reads of 1 MiB. `buffer_size` as above.
  void be_on_this_machine(int buffer_size) noexcept;
  // Starts to record what this connection carries. Precondition: connected.
  void record(Capture& capture, bool initiator);

  IoResult send(std::span<const Bytes> parts);
  IoResult receive(std::span<const MutableBytes> parts);
  // Returns the outcome of a connection attempt: an errno, 0 if it succeeded.
  int connect_error() const noexcept;
  void finish_sending() noexcept;  // FIN behind what was sent
  // Payload bytes that fit a TCP segment now.
  std::size_t segment_size() const noexcept;
  posix::Address local() const noexcept;
  posix::Address remote() const noexcept;
  std::uint64_t system_calls() const noexcept { return system_calls_; }

 private:
  IoResult sent(std::span<const Bytes> parts, ssize_t size);
  IoResult received(std::span<const MutableBytes> parts, ssize_t size);

  posix::Fd fd_;
  std::unique_ptr<CaptureFlow> flow_;
  std::uint64_t system_calls_ = 0;
};

// Makes an established connection of somebody else's fit for a TcpSocket. kUnsupported when it is
// none; the descriptor is closed then.
Expected<posix::Fd, Error> take_over_tcp(int descriptor);

// A new non-blocking socket; kNoResources with its errno when the system has none.
Expected<posix::Fd, Error> open_tcp(int family, int descriptors_from);

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_TCP_SOCKET_H_
