// The calls of one connection: puts messages, RDMA Reads and RDMA Writes together.
//
// The transports feed it in the same terms. Answered calls go to the sink and are forgotten.
#ifndef RPCRDMA_EXPLAIN_CONVERSATION_H_
#define RPCRDMA_EXPLAIN_CONVERSATION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "explain/call_record.h"
#include "explain/call_rules.h"
#include "explain/facts.h"
#include "explain/memory_map.h"
#include "explain/rules.h"
#include "explain/tcp_history.h"
#include "explain/transport_message.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// A Send, or a record of RPC over TCP.
struct SendFact {
  int side = 0;
  Where first, last;
  Bytes bytes;             // its first bytes
  std::uint64_t size = 0;  // of all, bytes
  bool is_whole = true;    // nothing of it is missing
  std::optional<std::uint32_t> invalidated;
};

// A segment of an RDMA Write, or of the response to an RDMA Read.
struct PlacedFact {
  int side = 0;
  Where where;
  std::uint32_t tag = 0;
  std::uint64_t address = 0;
  std::uint32_t size = 0;  // bytes
  bool is_last = false;
};

struct ReadFact {
  int side = 0;  // that reads
  Where where;
  std::uint32_t sink_tag = 0;
  std::uint64_t sink_address = 0;
  std::uint32_t size = 0;
  std::uint32_t source_tag = 0;
  std::uint64_t source_address = 0;
};

// An RDMA Read that waits for responses.
struct OpenRead {
  ReadFact fact;
  std::uint64_t received = 0;
  CallRecord* call = nullptr;        // null: unknown, or answered
  std::optional<MessageFact> reply;  // that came before the Read was complete
  std::size_t reply_footprint = 0;   // bytes
  std::uint64_t stream_offset = 0;
  bool is_long = false, is_of_reply = false;
};

// Calls that were unanswered when their connection ended, to know them when they are made again.
class LostCalls {
 public:
  void add(const CallFact& call, const Endpoint& client);
  // Returns the connection on which the same client made the call before; 0: none.
  std::uint64_t find(std::uint32_t xid, const Endpoint& client) const;

 private:
  using Key = std::pair<std::uint32_t, std::array<std::uint8_t, 16>>;  // XID and address
  std::map<Key, std::uint64_t> lost_;
  std::deque<Key> order_;
};

// The conversations of one capture share these.
struct Shared {
  HeaderDecoder decoder;
  LostCalls lost;
  TcpHistory history;
  bool keeps_bodies = false;
};

class Conversation {
 public:
  Conversation(ConnectionFact& connection, Sink& sink, Judge& judge, Shared& shared) noexcept
      : connection_(connection),
        sink_(sink),
        judge_(judge),
        shared_(shared),
        rules_(judge, connection) {}

  void on_send(const SendFact& send);
  void on_record(const SendFact& record);
  void on_write(const PlacedFact& write);
  void on_read(const ReadFact& read);
  // Over RoCE a response has no address: `tag` and `address` are those of the sink of its request.
  void on_response(const PlacedFact& response);
  // Payload of the Write or the response that was announced last. Only Long messages want it.
  void on_placed_bytes(Bytes bytes, std::uint64_t offset);
  bool wants_bytes() const noexcept { return long_head_ != nullptr; }

  // Bytes of the connection are missing in the capture.
  void on_missing();
  // The connection begins to end: calls without a reply may be made again on another.
  void note_lost();
  // No more comes: the connection has ended, or the capture has.
  void end(bool has_connection_ended);

  Terms& terms() noexcept { return terms_; }
  // Memory in bytes, roughly.
  std::size_t footprint() const noexcept {
    const std::size_t reads = open_reads_[0].size() + open_reads_[1].size();
    return sizeof *this + calls_footprint_ + replies_footprint_ + reads * sizeof(OpenRead);
  }
  // Returns whether that side made a Call with this XID that has no reply yet.
  bool awaits(int caller, std::uint32_t xid) const { return calls_[caller].contains(xid); }

 private:
  struct Request {
    std::uint32_t xid, count;
  };
  // A reply whose Call may only be late: packets of two directions change places.
  struct Orphan {
    MessageFact message;
    std::vector<std::byte> payload;
    std::uint64_t sends;    // of the connection, when it came
    std::size_t footprint;  // bytes
  };
  // An operation on memory that no call offers, or a response to no request: the Call or the
  // request may only be late, as the Call of a reply.
  struct Foreign {
    enum class Kind : std::uint8_t { kWrite, kRead, kResponse };
    PlacedFact placed;
    Kind kind;
    RuleId rule;  // that is broken if nothing comes
    std::uint64_t sends;
  };
  struct Refused {
    std::uint32_t xid;
    std::uint64_t digest;
  };

  bool is_call(const MessageFact& message, Bytes payload) const;
  void take_call(const SendFact& send, MessageFact&& message, Bytes payload);
  void take_reply(MessageFact&& message, Bytes payload);
  void take_error(MessageFact&& message);
  void take_done(const MessageFact& message);
  void take_option(const MessageFact& message, Bytes info);
  bool take_again(const MessageFact& message, const CallFact& rpc, std::uint64_t digest);
  void keep_orphan(MessageFact&& message, Bytes payload);
  void join_orphan(CallRecord& call);
  void drop_orphans(std::uint64_t sends_min);
  void take_reply_to_nothing(MessageFact&& message, Bytes payload);
  CallRecord& make_call(int caller, std::uint32_t xid);
  CallRecord* find_call(int caller, std::uint32_t xid);
  void count_call(CallRecord& call);
  void uncount_call(CallRecord& call);
  void drop_reads(int side, std::size_t count);
  void fill_reply(CallRecord& call, MessageFact&& message, Bytes payload);
  void read_long_call(CallRecord& call);
  void deliver(CallRecord& call);
  void drop_oldest(int caller);
  void learn_client(int caller) noexcept;
  void judge_unknown(const PlacedFact& placed, Foreign::Kind kind);
  void keep_foreign(const PlacedFact& placed, Foreign::Kind kind, RuleId rule);
  void forgive_foreign(CallRecord& call);
  void take_early_responses(const ReadFact& read);
  void judge_foreign(std::uint64_t sends_min);
  void note_write(CallRecord& call, const Offered& offered, const PlacedFact& write);

  ConnectionFact& connection_;
  Sink& sink_;
  Judge& judge_;
  Shared& shared_;
  CallRules rules_;
  Terms terms_;
  MemoryMap memory_;
  std::unordered_map<std::uint32_t, std::unique_ptr<CallRecord>> calls_[2];  // by who called
  std::deque<std::uint32_t> order_[2];  // XIDs in the order of their calls; some are answered
  std::map<std::uint32_t, std::uint32_t> grants_[2];  // in force for open Calls, and for how many
  std::uint32_t awaiting_done_[2] = {0, 0};           // of calls_, those that are answered
  std::size_t calls_footprint_ = 0;
  std::size_t replies_footprint_ = 0;  // of those in orphans_ and open_reads_
  std::uint64_t gaps_ = 0;
  std::size_t unnoted_[2] = {0, 0};     // of order_, those at its end that note_lost() has not seen
  std::deque<OpenRead> open_reads_[2];  // by the side that reads
  std::deque<Orphan> orphans_;
  std::deque<Foreign> foreign_;
  std::deque<Refused> refused_[2];     // Calls that were answered ERR_CHUNK
  std::deque<Request> requests_[2];    // for characteristics, by the side that asked
  std::uint32_t pending_[2] = {0, 0};  // of them, those that an UPDXCH has to end
  std::optional<std::uint32_t> last_error_[2];
  bool has_nfs3_ = false, has_other_program_ = false;

  // Where the payload of the last operation goes, if it belongs to a Long message.
  std::vector<std::byte>* long_head_ = nullptr;
  std::uint64_t long_at_ = 0;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_CONVERSATION_H_
