// A TCP connection that may carry iWARP or ONC RPC: finds out which, and hands on what its messages
// say.
#ifndef RPCRDMA_EXPLAIN_TCP_LINK_H_
#define RPCRDMA_EXPLAIN_TCP_LINK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/conversation.h"
#include "explain/fpdu_reader.h"
#include "explain/record_reader.h"
#include "explain/rules.h"
#include "explain/tcp_stream.h"
#include "iwarp/mpa.h"

namespace rpcrdma::explain {

class TcpLink {
 public:
  TcpLink(ConnectionFact& connection, Conversation& conversation, Sink& sink, Judge& judge,
          TcpHistory& history) noexcept
      : connection_(connection),
        conversation_(conversation),
        sink_(sink),
        judge_(judge),
        directions_{{*this, 0, history}, {*this, 1, history}} {}

  TcpStream& stream(int side) noexcept { return directions_[side].stream; }
  StreamConsumer& consumer(int side) noexcept { return directions_[side]; }
  // No more bytes of that side come.
  void end(int side);
  void finish();

  // Returns whether both directions have another protocol, so that nothing of them is looked at.
  bool is_other() const noexcept {
    return directions_[0].state == State::kOther && directions_[1].state == State::kOther;
  }
  // Memory in bytes, roughly.
  std::size_t footprint() const noexcept;

 private:
  enum class State : std::uint8_t {
    kStart,  // the first bytes are awaited
    kFrame,  // an MPA request or reply
    kFpdus,
    kRecords,
    kOther,  // another protocol
  };
  // One direction. Its methods know their side.
  class Direction : public StreamConsumer, public FpduConsumer, public RecordConsumer {
   public:
    Direction(TcpLink& of, int number, TcpHistory& history) noexcept
        : link(&of), side(number), stream(history) {}

    void on_bytes(Bytes bytes, const Where& where) override;
    void on_other_bytes(std::uint32_t count, const Where& where) override;
    void on_gap(std::uint64_t size, const Where& where) override;
    void on_fpdu(const FpduStart& start) override;
    void on_payload(Bytes bytes, std::uint32_t offset, const Where& where) override;
    void on_fpdu_end(const FpduEnd& end) override;
    void on_lost(const Where& where) override;
    void on_record(const Where& first, const Where& last, Bytes kept, std::uint64_t size,
                   bool is_whole) override;

    TcpLink* link;
    int side;
    State state = State::kStart;
    TcpStream stream;
    FpduReader fpdus{*this};
    RecordReader records{*this};
    std::vector<std::byte> start;          // bytes until the protocol is known, or of the MPA frame
    bool is_reply = false;                 // of the MPA frame
    std::optional<iwarp::MpaFrame> frame;  // without its private data
    bool has_fpdu = false, is_first_fpdu = true, is_terminated = false;
    bool has_good_crc = false;

    FpduStart fpdu;
    std::uint32_t sequence[3] = {0, 0, 0};  // the next MSN of each queue; 0: unknown
    std::vector<std::byte> message;         // first bytes of the untagged message
    std::uint64_t message_size = 0;
    Where message_first;
    bool is_message_whole = true;

   private:
    void choose(const Where& where);
    void take_frame(const Where& where);
    void begin_fpdus(Bytes bytes);
    void judge_start(const FpduStart& start);
    void judge_untagged(const iwarp::Header& header, const Where& where);
    void start_placed(const iwarp::Header& header, const Where& where);
    void finish_untagged(const FpduEnd& end);
    void finish_read_request(const FpduEnd& end);
    void finish_terminate(const FpduEnd& end);
    void report(RuleId id, const Where& where, std::string detail = {}) const;
  };

  void note_setup(Direction& direction, const Where& where);
  void judge_setup(const Where& where);
  void judge_first_fpdu(Direction& direction, const FpduStart& start);

  ConnectionFact& connection_;
  Conversation& conversation_;
  Sink& sink_;
  Judge& judge_;
  Direction directions_[2];
  bool has_crc_ = false, is_setup_known_ = false, is_rejected_ = false;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_TCP_LINK_H_
