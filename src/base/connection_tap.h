// Adds what one connection sends and receives to a server's Tap.
#ifndef RPCRDMA_BASE_CONNECTION_TAP_H_
#define RPCRDMA_BASE_CONNECTION_TAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rpcrdma/tap.h"

namespace rpcrdma {

class ConnectionTap {
 public:
  enum class Carrier : std::uint8_t { kRdma = 1, kTcp = 2 };

  // `tap`: null if nobody will ever look. It outlives the connection.
  ConnectionTap(Tap* tap, Carrier carrier) noexcept : tap_(tap), carrier_(carrier) {}

  bool is_on() const noexcept { return tap_ != nullptr && tap_->is_on(); }
  // The reader knows the connection already.
  bool is_introduced() const noexcept { return epoch_ == tap_->epoch(); }
  // Bytes; 0: not known.
  void set_sizes(std::uint32_t send, std::uint32_t receive) noexcept {
    send_size_ = send;
    receive_size_ = receive;
  }
  // The connection begins now, so that a reader sees all of it.
  [[gnu::cold, gnu::noinline]] void begin(std::string_view peer) noexcept {
    introduce(peer, TapRecord::kSeenFromTheStart);
  }
  // Adds a record about this connection, which introduces itself first if the reader does not know
  // it.
  [[gnu::cold, gnu::noinline]] void add(std::string_view peer, TapRecord record,
                                        std::span<const Bytes> runs = {}) noexcept {
    introduce(peer, 0);
    record.connection = number_;
    tap_->add(record, runs);
  }
  // It ended; `why` is empty if it did in order.
  void end(std::string_view peer, std::string_view why) noexcept {
    TapRecord record;
    record.kind = TapRecord::Kind::kEnd;
    const Bytes text(reinterpret_cast<const std::byte*>(why.data()), why.size());
    add(peer, record, {&text, 1});
  }

 private:
  void introduce(std::string_view peer, std::uint8_t flags) noexcept {
    const std::uint64_t epoch = tap_->epoch();
    if (epoch == epoch_) return;
    epoch_ = epoch;
    if (number_ == 0) number_ = tap_->new_connection();
    TapRecord record;
    record.kind = TapRecord::Kind::kConnection;
    record.flags = flags;
    record.connection = number_;
    record.tag = send_size_;
    record.address = receive_size_;
    record.size = static_cast<std::uint64_t>(carrier_);
    const Bytes text(reinterpret_cast<const std::byte*>(peer.data()), peer.size());
    tap_->add(record, {&text, 1});
  }

  Tap* const tap_;
  std::uint64_t epoch_ = 0;   // of the reader that knows the connection
  std::uint64_t number_ = 0;  // 0: none yet
  std::uint32_t send_size_ = 0, receive_size_ = 0;
  const Carrier carrier_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_CONNECTION_TAP_H_
