// A record of what connections carried, for Wireshark: pcapng with made-up Ethernet, IP and TCP
// headers around the real bytes (real addresses and ports, valid checksums and sequence numbers).
//
// It shows the order in which this side sent and received, not the segments that were on the
// network: each FPDU and each set-up frame of MPA has segments of its own here.
#ifndef RPCRDMA_RDMA_SIWARP_CAPTURE_H_
#define RPCRDMA_RDMA_SIWARP_CAPTURE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "posix/address.h"
#include "posix/born_here.h"
#include "posix/fd.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rdma::siwarp {

// The file. Errors while writing end the record silently: it must never hurt the connection. A
// child of fork() leaves the captures of its parent alone: it writes nothing there and takes no
// lock, which a thread of the parent may have held. Those that it opens itself are its own.
class Capture {
 public:
  // Closes the file when the last of those that opened it has left.
  struct Leave {
    void operator()(Capture* capture) const noexcept;
  };
  using Opened = std::unique_ptr<Capture, Leave>;

  // Begins a file. A file that this process has begun before is shared, or continued, since a
  // program with several clients names one file for all of them. A child appends to a file that its
  // parent may have begun, and counts a bound of its own. Fails with kProvider and errno when the
  // file cannot be made.
  static Expected<Opened, Error> open(const std::string& path, std::uint64_t bytes_max);
  // Appends one packet. False: the file is full. From any thread.
  bool write(Bytes packet);

 private:
  struct Table;
  static Table& table();
  Capture(posix::Fd file, std::uint64_t bytes_max, std::uint64_t bytes)
      : file_(std::move(file)), bytes_max_(bytes_max), bytes_(bytes) {}
  bool put(Bytes block);
  bool put_all(Bytes block);
  bool start();

  const posix::BornHere born_{};
  std::mutex mutex_;  // of what is below, once it is open
  posix::Fd file_;
  std::uint64_t bytes_max_;
  std::uint64_t bytes_;
  bool full_ = false;
  bool is_torn_ = false;  // a packet was written in part
  std::vector<std::byte> block_;
  std::size_t users_ = 1;  // guarded by Table::mutex
};

// Cuts what one direction carries into segments of one frame each. Wireshark expects what RFC 5044
// §5 asks of senders, that segments begin with FPDUs: it decodes nothing behind one that begins
// elsewhere. RFC 5044 lets a segment hold several FPDUs, but of those Wireshark 4.0 hands only the
// first RPC message on.
class CaptureSegments {
 public:
  void add(Bytes bytes);
  // Returns the next segment: a whole frame, or a piece of one that is longer than a segment.
  // Empty: no frame is whole. Valid until add().
  Bytes next() noexcept;
  // Returns the rest of a frame that did not come whole, at the end of the connection. Bytes behind
  // it are cut anywhere.
  Bytes rest() noexcept;

 private:
  // Returns the size of the frame that comes next; 0 as long as it is not whole.
  std::size_t frame_size() noexcept;
  Bytes take(std::size_t size) noexcept;

  std::vector<std::byte> held_;
  std::size_t begin_ = 0;   // of what next() has not returned
  std::size_t pieces_ = 0;  // bytes that are left of a frame that is longer than a segment
  bool set_up_ = false;     // the set-up frame has passed
  bool unknown_ = false;    // it was none: segments begin anywhere
};

// One connection in it.
class CaptureFlow {
 public:
  // Writes the handshake. `capture` outlives the flow.
  CaptureFlow(Capture& capture, const posix::Address& local, const posix::Address& remote,
              bool initiator);
  ~CaptureFlow();
  CaptureFlow(const CaptureFlow&) = delete;
  CaptureFlow& operator=(const CaptureFlow&) = delete;

  // The first `size` bytes of the parts.
  void sent(std::span<const Bytes> parts, std::size_t size);
  void received(std::span<const MutableBytes> parts, std::size_t size);
  void finished();  // what did not come whole, and our FIN

 private:
  struct Endpoint {
    std::array<std::byte, 16> host{};
    std::uint16_t port = 0;
    std::uint32_t sequence = 0;
    std::byte mac{};
    CaptureSegments segments;  // of what it sends
  };
  static void set(Endpoint& endpoint, const posix::Address& address);
  template <class Part>
  void data(bool outgoing, std::span<const Part> parts, std::size_t size);
  void segment(bool outgoing, unsigned flags, Bytes payload);
  std::size_t headers(const Endpoint& from, const Endpoint& to, unsigned flags, Bytes payload);

  Capture& capture_;
  bool six_;
  bool finished_ = false;
  Endpoint local_, remote_;
  std::vector<std::byte> packet_;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_CAPTURE_H_
