// A TCP connection, or one of Unix sockets, that carries ONC RPC messages as records (RFC 5531
// §11). It never blocks, and calls nobody: its owner asks for messages and hands messages over.
#ifndef RPCRDMA_TCP_CONNECTION_H_
#define RPCRDMA_TCP_CONNECTION_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "posix/address.h"
#include "posix/fd.h"
#include "posix/reactor.h"
#include "tcp/accepted.h"
#include "tcp/memory.h"
#include "tcp/record.h"
#include "tcp/record_clock.h"
#include "tcp/send_queue.h"
#include "tcp/stall_clock.h"

namespace rpcrdma::tcp {

struct ConnectionOptions {
  RecordLimits record{};
  std::uint32_t messages_unsent_max = 64;  // handed over and not settled
  // false: reads no byte behind the record that is under way, for release(). Costs system calls.
  bool read_ahead = true;
  // A peer is dropped that neither completes a record in this time nor sends
  // StallClock::kProgressMin (16 KiB) of it, nor takes anything of what is sent meanwhile.
  std::chrono::nanoseconds stall_timeout = std::chrono::seconds(30);
  // A peer is dropped that takes nothing of what is sent for so long.
  std::chrono::nanoseconds send_timeout = std::chrono::seconds(30);
  // A peer is dropped, too, that takes longer for one record than this and the bytes that have come
  // of it at `record_rate_min`, bytes per second; 0: for any time. And one that takes longer for
  // what is unsent at any moment than send_timeout and these bytes at that rate.
  std::chrono::nanoseconds record_timeout = std::chrono::seconds(10);
  std::uint32_t record_rate_min = 0;
  std::chrono::nanoseconds linger = std::chrono::seconds(2);  // the peer's time after finish()
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);
};

// The reason why a connection ended.
enum class EndKind : std::uint8_t {
  kNone,              // it has not
  kClosed,            // in order, by the peer or by finish()
  kLost,              // refused, or lost, or closed by the peer inside of a record; see code
  kTooLarge,          // a record over RecordLimits::size_max that was not cut
  kTooManyFragments,  // over RecordLimits::fragments_max
  kStalled,           // stall_timeout, send_timeout or connect_timeout
  kSlow,              // record_timeout
  kAborted,           // abort()
};
struct End {
  EndKind kind = EndKind::kNone;
  // Errno of kLost; 0: the peer closed. ENOMEM of kStalled: there was no memory for what it sent.
  int code = 0;
};

// The peer as the system sees it.
enum class PeerState : std::uint8_t {
  kQuiet,     // all that it has sent is read
  kTalks,     // it has sent something behind the last record, or has begun one
  kHasEnded,  // it has ended its side, or the connection
};

// Is notified when the reactor has come to a connection: receive() may return a further message,
// or settled() or ended() something else than before. Outlives the connection.
class NewsListener {
 public:
  virtual void handle_news() noexcept = 0;

 protected:
  ~NewsListener() = default;
};

class Connection final : private posix::Watched {
 public:
  static constexpr std::size_t kRunsMax = SendQueue::kRunsMax;

  // Takes over a connected stream socket, and makes it non-blocking. The reactor and the memory
  // must outlive the connection.
  static Expected<std::unique_ptr<Connection>, posix::SystemError> open(
      posix::Reactor& reactor, Accepted accepted, Memory& memory, const ConnectionOptions& options);
  // Begins to connect. Messages may be handed over at once; they go out when connected(). A peer
  // that refuses ends the connection later, unless the system knows at once.
  static Expected<std::unique_ptr<Connection>, posix::SystemError> connect(
      posix::Reactor& reactor, const posix::Address& address, Memory& memory,
      const ConnectionOptions& options);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void set_listener(NewsListener& listener) noexcept { listener_ = &listener; }

  // The next message that has come to its end, whole unless it was cut (RecordLimits::excess).
  // nullopt: none has; ask again when the reactor has dispatched, or at once while has_more().
  // Asking for none makes the peer wait: that is the back pressure.
  std::optional<Message> receive();
  // Returns whether receive() may return a message without a further event.
  bool has_more() const noexcept;
  // Returns whether there was no memory for the next bytes. receive() asks for it again.
  bool starved() const noexcept { return reader_.starved(); }
  // No further message will come; replies still go out.
  bool peer_finished() const noexcept { return peer_finished_; }

  // Hands a message over, which goes out as one record: at most kRunsMax runs, whose bytes stay as
  // they are until settled() counts the message. Call flush() behind the last message of a turn.
  // False: it is over kFragmentSizeMax and is not sent. Precondition: fewer than
  // messages_unsent_max are unsettled.
  [[nodiscard]] bool send(std::span<const Bytes> runs);
  void flush();
  // Messages, of all that were handed over since the start, whose bytes are not needed any more.
  std::uint64_t settled() const noexcept { return outgoing_.settled(); }
  std::size_t bytes_unsent() const noexcept { return outgoing_.bytes_unsent(); }

  bool connected() const noexcept { return connected_; }  // also when it has ended since
  // Receives nothing more; what was handed over goes out before the connection is closed, unless it
  // is not connected() yet.
  void finish();
  void abort() { end({EndKind::kAborted, 0}); }
  // Ends it at once, in order. Precondition: nothing is under way, and either side has ended.
  void close();
  bool ended() const noexcept { return end_.kind != EndKind::kNone; }
  // It has ended, or everything is sent and only the peer's end is missing, which destroying the
  // connection does not wait for.
  bool closing() const noexcept { return ended() || shut_down_; }
  End cause() const noexcept { return end_; }
  // Nothing of a further record has been read, and neither side has ended the connection.
  bool is_between_records() const noexcept;
  // Asks the system. A connection that the peer has reset has ended behind it, kLost.
  PeerState look_at_peer();
  bool is_local() const noexcept { return is_local_; }  // over Unix sockets
  // The socket, non-blocking, behind the last record that receive() returned and the last that was
  // sent, for a protocol that both sides go on with. Nothing: the connection has ended, something
  // is unsent, or bytes behind the record were read. The connection is kAborted afterwards.
  std::optional<posix::Fd> release();

  // "ADDR:PORT"; over a Unix socket the path (connect()), or "local (user UID, process PID)".
  std::string_view peer_address() const noexcept { return peer_address_; }
  std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }
  std::uint64_t bytes_received() const noexcept { return bytes_received_; }

 private:
  static constexpr std::size_t kStagingSize = 4096;  // bytes

  Connection(posix::Reactor& reactor, posix::Fd socket, Memory& memory,
             const ConnectionOptions& options, std::string peer_address);
  bool watch();
  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override;
  bool take_staged();
  bool read_some();
  void handle_read(std::size_t size, std::size_t placed_max);
  void discard();
  void shut_down();
  void watch_progress();
  void watch_record();
  Instant next_deadline() const noexcept;
  void set_deadline();
  bool awaits_bytes() const noexcept;
  bool awaits_record() const noexcept;
  void end(const End& why);

  posix::Reactor& reactor_;
  NewsListener* listener_ = nullptr;
  posix::Fd socket_;
  const ConnectionOptions options_;
  const std::string peer_address_;
  const bool is_local_;
  RecordReader reader_;
  // Bytes that were read ahead.
  std::array<std::byte, kStagingSize> staging_;
  std::size_t staged_begin_ = 0, staged_end_ = 0;

  SendQueue outgoing_;
  std::uint64_t bytes_sent_ = 0, bytes_received_ = 0;

  // The reactor tells changes only; these are true until the socket says that it would block.
  bool readable_ = false, writable_ = true;
  bool connected_ = true;
  bool hung_up_ = false;  // the end of the stream is among what can be read
  bool peer_finished_ = false;
  bool finishing_ = false;  // finish() was called
  bool shut_down_ = false;  // our FIN is sent
  bool timed_ = false;      // a deadline is set
  Instant deadline_{};      // that one
  bool late_ = false;       // the deadline has passed; what can be read decides
  StallClocks stalls_;
  RecordClock record_clock_;
  End end_;
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_CONNECTION_H_
