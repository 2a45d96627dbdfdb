// A reliable connection of RoCE: follows its packet sequence numbers, and hands on its messages.
#ifndef RPCRDMA_EXPLAIN_ROCE_LINK_H_
#define RPCRDMA_EXPLAIN_ROCE_LINK_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "explain/conversation.h"
#include "explain/roce.h"
#include "explain/rules.h"

namespace rpcrdma::explain {

class RoceLink {
 public:
  RoceLink(ConnectionFact& connection, Conversation& conversation, Sink& sink,
           Judge& judge) noexcept
      : connection_(connection), conversation_(conversation), sink_(sink), judge_(judge) {}

  // A message of the connection manager that set the connection up.
  void note_setup(int side, const CmMessage& message);
  void finish_setup();
  void add(int side, const RocePacket& packet, const Where& where);

  // For a connection of which side 0 was seen alone. Return whether a packet of the other side
  // answers what side 0 sent, and whether it answers something else.
  bool is_answered_by(const RocePacket& packet) const;
  bool is_contradicted_by(const RocePacket& packet) const;
  // Memory in bytes, roughly.
  std::size_t footprint() const noexcept;

 private:
  struct OpenRead {
    std::uint32_t psn, count;              // of its responses
    std::uint32_t received = 0, next = 0;  // bytes; the PSN that comes next
  };
  struct Direction {
    std::optional<std::uint32_t> next;  // PSN of the next request
    std::uint32_t first = 0;            // PSN of the first one that was seen
    std::vector<std::byte> message;     // first bytes of the Send
    std::uint64_t message_size = 0;
    Where message_first;
    bool is_whole = false;
    std::uint64_t write_address = 0;  // of the RDMA Write under way
    std::uint32_t write_key = 0;
    bool has_write = false;
    std::deque<OpenRead> reads;  // that this side asked for
  };

  std::uint32_t responses_to(std::uint32_t length) const noexcept;
  bool follow(int side, const RocePacket& packet, const Where& where);
  void add_send(int side, const RocePacket& packet, const Where& where);
  void add_write(int side, const RocePacket& packet, const Where& where);
  void add_read(int side, const RocePacket& packet, const Where& where);
  void drop_passed_reads(int side, const RocePacket& packet, const Where& where);
  void add_response(int side, const RocePacket& packet, const Where& where);
  void judge_acknowledge(int side, const RocePacket& packet, const Where& where);
  void report(RuleId id, int side, const Where& where, std::string detail = {}) {
    judge_.report(id, side, where, std::nullopt, std::move(detail));
  }

  ConnectionFact& connection_;
  Conversation& conversation_;
  Sink& sink_;
  Judge& judge_;
  Direction directions_[2];
  std::uint32_t path_mtu_ = 0;  // bytes; 0: unknown
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_ROCE_LINK_H_
