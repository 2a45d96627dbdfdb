// The receiving half of a stream: takes bytes apart into FPDUs, checks them and places payload.
// Internal to the module.
//
// FPDUs of up to kSmallFpdu bytes are collected in a staging area, checked with their CRC, and
// copied to where they belong. The payload of larger ones is received directly into its place, as
// soon as the header has passed all checks; its CRC is known only afterwards (as with hardware), so
// that a mismatch ends the stream and the data is never announced.
#ifndef RPCRDMA_IWARP_RX_H_
#define RPCRDMA_IWARP_RX_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "iwarp/block_pool.h"
#include "iwarp/crc32c.h"
#include "iwarp/stream_state.h"

namespace rpcrdma::iwarp {

class Rx {
 public:
  explicit Rx(StreamState& state);

  // Returns the memory for the next bytes of the connection, in order. Valid until the next call of
  // any function.
  std::size_t receive_room(std::span<MutableBytes> room);
  void handle_received(std::size_t size);
  // Holds no memory while nothing is staged.
  void rest() noexcept {
    if (begin_ != end_) return;
    begin_ = end_ = 0;
    staging_.release();
  }
  // True in the middle of an FPDU.
  bool inside_fpdu() const noexcept { return mode_ != Mode::kHeader || begin_ != end_; }
  // The tag is being revoked: whatever of the FPDU in progress is still to come for it is thrown
  // away, and the stream ends behind that FPDU.
  void divert(SteeringTag tag);

 private:
  enum class Mode : std::uint8_t { kHeader, kPayload, kTrailer };
  enum class Place : std::uint8_t {
    kNone,     // nothing to place
    kReceive,  // oldest posted Receive
    kMemory,   // at target_
    kDiscard,  // was revoked in the meantime
  };

  bool parse();
  bool parse_header();
  bool take_small_send(Bytes bytes);
  bool parse_small(std::size_t size);
  bool parse_large();
  bool parse_payload();
  bool parse_trailer();

  void fail(Fault fault);
  bool check(Bytes fpdu);  // decides place_ and target_, or fails
  bool check_send();
  bool check_invalidate();
  bool check_not_sending(const Exposure& exposure);
  bool check_write();
  bool check_read_response();
  bool check_read_request(Bytes payload);
  bool check_rtr();
  void place(Bytes payload);
  void commit();
  void commit_send();
  void commit_read_response();
  void take_terminate(Bytes payload);
  Bytes staged() const noexcept;
  std::size_t idle_room() const noexcept;

  StreamState& state_;
  Block staging_;
  std::size_t begin_ = 0;  // of what is staged and not yet parsed
  std::size_t end_ = 0;
  std::size_t direct_offered_ = 0;  // bytes of the newest room that are not staging
  int bulk_ = 0;                    // FPDUs for which large ones are still expected
  bool small_segments_ = false;     // the peer cuts long messages into small FPDUs

  Mode mode_ = Mode::kHeader;
  Place place_ = Place::kNone;
  Header header_;
  std::byte* target_ = nullptr;
  std::size_t placed_ = 0;  // payload of the current FPDU
  bool diverted_ = false;
  Crc32c crc_;
  std::array<std::byte, kLengthSize + kUntaggedSize> large_header_{};  // for a Terminate

  bool first_ = true;          // no FPDU has come yet
  bool message_open_ = false;  // a Send has begun and not ended
  Opcode message_opcode_ = Opcode::kSend;
  SteeringTag message_tag_{};
  std::uint32_t message_size_ = 0;
  std::uint32_t send_msn_ = 1;
  std::uint32_t read_msn_ = 1;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_RX_H_
