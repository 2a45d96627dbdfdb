// The sending half of a stream: turns work into FPDUs. Internal to the module.
//
// Output is built in batches. A batch is a list of pieces: small FPDUs lie whole in one arena, the
// payload of larger ones stays where the application has it, with its CRC and the next header
// merged into one piece. A batch is sent whole, possibly by several calls, before the next one is
// built.
#ifndef RPCRDMA_IWARP_TX_H_
#define RPCRDMA_IWARP_TX_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ring.h"
#include "iwarp/block_pool.h"
#include "iwarp/crc32c.h"
#include "iwarp/read_requests.h"
#include "iwarp/stream_state.h"

namespace rpcrdma::iwarp {

class Tx {
 public:
  static constexpr std::size_t kTurn = std::size_t{256} * 1024;  // bytes

  explicit Tx(StreamState& state);

  // `fpdu_size_max`: bytes of an FPDU on the wire, at least 128 and at most kFpduSizeMax.
  // `segment_size`: of TCP, when FPDUs must not have their CRC cut by a segment boundary; 0: do not
  // care.
  void start(std::size_t fpdu_size_max, std::size_t segment_size);
  // Puts one zero-length Write in front of the next message.
  void nudge() { nudge_ = true; }
  // Builds a Send at once and keeps nothing of the memory. False, and nothing done: it is not
  // small, or something is before it. Precondition: `spans` are less than 4 GiB together.
  bool send_now(Opcode opcode, SteeringTag tag, std::span<const Bytes> spans);
  // Does the same for several; returns how many of them are done, from the first on.
  std::size_t send_now(std::span<const CopiedSend> sends);
  // Returns the output that is built and not sent, if all of it was copied; else nothing.
  std::span<Bytes> unsent_copies(std::span<Bytes> room);
  std::size_t transmit(std::span<Bytes> room);
  void set_turn(std::size_t size) noexcept { turn_ = size; }
  // Tells of messages longer than kTurn in the output of transmit().
  struct LongMessages {
    bool are_there = false;
    bool end_turn = false;  // the output ends inside of one, and was enough for one turn
  };
  const LongMessages& long_messages() const noexcept { return long_; }
  void handle_sent(std::size_t size);
  // Bytes of application memory may be read until everything built is sent.
  std::uint64_t sent_total() const noexcept { return sent_total_; }

 private:
  // An end that is reached when the output has got to `end`: of a work request, or of the stream.
  struct Mark {
    std::uint64_t end = 0;
    bool terminate = false;  // else: the oldest work request
  };
  enum class Current : std::uint8_t { kNone, kWork, kResponse };

  bool batch_full() const noexcept;
  void begin_batch();
  void build();
  bool pick();
  bool start_work();
  bool build_fpdu();
  bool build_small_send(const SendWork& work);
  bool begin_send_now() noexcept;
  template <class Copy>
  void put_small_send(Opcode opcode, SteeringTag tag, std::size_t size, Copy copy_to);
  template <class Copy>
  std::byte* write_small_send(std::byte* at, Opcode opcode, SteeringTag tag, std::size_t size,
                              Copy copy_to);
  void end_small_sends(const std::byte* begin, const std::byte* end, std::size_t payload_size,
                       std::size_t count);
  void build_work_fpdu(SendWork& work);
  bool build_response_fpdu();
  void build_read_request(const ReadRequest& request);
  void build_empty_write();
  void build_rtr();
  void build_terminate();
  void end_turn_of(std::uint64_t message_size) noexcept;
  void finish_work();
  void finish_marks();
  std::size_t payload_limit(Opcode opcode, std::size_t left) const noexcept;
  bool cuts_crc(std::size_t size) const noexcept;
  bool ends_batch_before(std::size_t size) noexcept;

  // One FPDU: begin with its header, add payload, end with pad and CRC.
  void begin_fpdu(const Header& header);
  void put(Bytes bytes);
  void copy_payload(Bytes payload);
  void refer_payload(Bytes payload);
  void end_fpdu();
  inline void add_piece(const std::byte* data, std::size_t size);

  StreamState& state_;
  ReadRequests reads_;
  std::size_t fpdu_size_max_ = 0;
  std::size_t segment_size_ = 0;
  std::size_t small_send_end_ = 0;  // Sends with less payload are copied, one FPDU each

  Block arena_;
  std::size_t arena_used_ = 0;
  Ring<Bytes> pieces_;
  const std::byte* pieces_end_ = nullptr;  // of the last one; null: there are none
  Ring<Mark> marks_;
  std::size_t large_in_batch_ = 0;
  std::uint64_t built_total_ = 0;  // bytes since the start of the stream
  std::uint64_t sent_total_ = 0;
  std::uint64_t batch_start_ = 0;  // built_total_ when the batch was begun
  bool batch_ends_ = false;
  // A batch takes about this much of any longer message. A peer on this core that reads the batch
  // while it is in the cache is faster than bare TCP (docs/performance.md), and other connections
  // wait less long. Shorter messages are not cut: several small ones in a batch save more.
  std::size_t turn_ = kTurn;
  LongMessages long_;

  Current current_ = Current::kNone;
  bool response_was_last_ = false;
  std::size_t built_works_ = 0;  // works at the front of `sends` whose last FPDU is built
  std::uint32_t offset_ = 0;     // bytes of the current work in built FPDUs
  std::uint32_t send_msn_ = 1;
  std::uint32_t read_msn_ = 1;
  bool nudge_ = false;
  Rtr rtr_ = Rtr::kNone;

  // The FPDU that is being built.
  std::size_t fpdu_begin_ = 0;  // in the arena; of its trailer once it refers to payload elsewhere
  bool fpdu_refers_ = false;
  std::size_t fpdu_ulpdu_size_ = 0;
  Crc32c crc_;
};

inline constexpr std::size_t kTaggedPayloadMax = 65'520;  // a multiple of 8 that the length holds
inline constexpr std::size_t kFpduSizeMax = fpdu_size(kTaggedSize + kTaggedPayloadMax);

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_TX_H_
