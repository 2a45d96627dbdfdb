// One side of an MPA connection set-up, as a machine: bytes and time in, bytes and a deadline out.
//
// Drive it: hand in at most bytes_wanted() bytes of the connection with handle_received(), send
// what output() holds and say so with handle_sent(), call handle_timeout() at deadline(). It never
// takes a byte behind its frame: those belong to the stream that follows.
#ifndef RPCRDMA_IWARP_SETUP_H_
#define RPCRDMA_IWARP_SETUP_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "iwarp/headers.h"
#include "iwarp/mpa.h"
#include "rpcrdma/types.h"

namespace rpcrdma::iwarp {

enum class SetupError : std::uint8_t {
  kNone,
  kTimedOut,     // the peer did not finish in time
  kClosed,       // the peer closed the connection
  kNotMpa,       // the peer speaks something else
  kTooLong,      // more private data than allowed, or a frame that contradicts itself
  kRejected,     // the responder refused; its private data may say why
  kMarkers,      // the peer insists on markers, which we do not do
  kRevision,     // no revision in common
  kNotEnhanced,  // a revision 2 Reply without IRD and ORD
  kIrd,          // the responder wants more RDMA Reads than we hold
  kRtr,          // no ready-to-receive message in common
  kRefused,      // we (the responder's upper layer) refused
};
std::string_view to_string(SetupError error) noexcept;

class MpaSetup {
 public:
  enum class State : std::uint8_t {
    kReceiving,  // waits for the peer's frame; the peer moves it on
    kDeciding,   // responder: waits for accept() or reject(); the upper layer moves it on
    kSending,    // the last bytes are not out yet; the socket moves it on
    kDone,       // negotiated() is valid
    kFailed,     // error() is valid; output() may still hold a last word for the peer
  };
  struct Options {
    MpaWishes wishes;
    std::chrono::nanoseconds timeout{std::chrono::seconds{10}};
  };

  // Starts with a Request in output(). Precondition: private_data fits (kMpaUserDataMax).
  static MpaSetup initiator(const Options& options, Bytes private_data, Instant now);
  // Starts by waiting for a Request.
  static MpaSetup responder(const Options& options, Instant now);

  // Input. `bytes` are at most bytes_wanted().
  void handle_received(Bytes bytes);
  void handle_end_of_stream();
  void handle_sent(std::size_t size);
  void handle_timeout(Instant now);

  // The responder's answer, in state kDeciding. False: private_data does not fit.
  [[nodiscard]] bool accept(Bytes private_data);
  void reject(Bytes private_data);

  // Output.
  std::size_t bytes_wanted() const noexcept;
  Bytes output() const noexcept;  // valid until the next non-const call
  std::optional<Instant> deadline() const noexcept;

  State state() const noexcept { return state_; }
  SetupError error() const noexcept { return error_; }
  const Negotiated& negotiated() const noexcept { return negotiated_; }
  Bytes peer_private_data() const noexcept { return peer_.private_data; }

  MpaSetup(const MpaSetup&) = delete;
  MpaSetup& operator=(const MpaSetup&) = delete;

 private:
  MpaSetup(bool initiator, const Options& options, Instant now);
  MpaSetup(const Options& options, Bytes private_data, Instant now);
  void handle_frame();
  void handle_reply();
  void fail(SetupError error);
  void refuse(SetupError error);
  void say_terminate(Fault fault);

  const bool initiator_;
  const MpaWishes wishes_;
  State state_ = State::kReceiving;
  SetupError error_ = SetupError::kNone;
  Instant deadline_;
  MpaFrame peer_;  // private_data borrows from input_
  Negotiated negotiated_;
  std::array<std::byte, kMpaFrameMax> input_;
  std::size_t input_size_ = 0;
  std::array<std::byte, kMpaFrameMax> output_;
  std::size_t output_begin_ = 0;
  std::size_t output_end_ = 0;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_SETUP_H_
