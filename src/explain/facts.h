// The facts that a Decoder finds in captured packets: connections, messages, calls, findings.
//
// This is the interface of the module for apps/explain (ADR 43). Nothing here knows files or text
// formats.
#ifndef RPCRDMA_EXPLAIN_FACTS_H_
#define RPCRDMA_EXPLAIN_FACTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rpcrdma::explain {

// A place in the capture. Packets count from 1, as in other tools.
struct Where {
  std::uint64_t packet = 0;
  std::int64_t time = 0;  // nanoseconds since 1970
};

// One end of a connection: over TCP an address and a port, over RoCE an address and a queue pair.
struct Endpoint {
  std::array<std::uint8_t, 16> address{};
  bool is_v6 = false;
  std::uint32_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};
std::string to_string(const Endpoint& endpoint);

// kRdma: seen by the server itself, over whatever device.
enum class Transport : std::uint8_t { kUnknown, kIwarp, kRoce, kTcp, kRdma };
std::string_view to_string(Transport transport) noexcept;

// A segment of a chunk list. `position` is meaningful in Read lists only.
struct SegmentFact {
  std::uint32_t position = 0;
  std::uint32_t handle = 0;
  std::uint32_t length = 0;  // bytes
  std::uint64_t offset = 0;
};
using Chunk = std::vector<SegmentFact>;
std::uint64_t length_of(const Chunk& chunk) noexcept;

// rdma_proc of both versions.
enum class MessageType : std::uint32_t {
  kMsg = 0,
  kNoMsg = 1,
  kMsgp = 2,
  kDone = 3,
  kError = 4,
  kOptional = 5,  // version 2
};

// A Transport header of RPC-over-RDMA, as one Send carried it.
struct MessageFact {
  Where first, last;       // the packets of its first and its last byte
  int side = 0;            // the sender: 0 or 1, see ConnectionFact
  bool is_whole = true;    // no byte of it is missing in the capture
  std::string_view error;  // why the header cannot be decoded; empty: it could
  std::string_view error_field;
  std::uint32_t xid = 0, version = 0, credits = 0, type = 0;
  std::uint32_t error_code = 0, low = 0, high = 0;  // of kError
  std::uint32_t option = 0;                         // of kOptional
  std::optional<bool> is_reply;                     // version 2: its direction
  Chunk reads;
  std::vector<Chunk> writes;
  bool has_reply_chunk = false;
  Chunk reply_chunk;
  std::uint64_t size = 0;         // of the Send, bytes
  std::uint32_t header_size = 0;  // bytes
  bool invalidates = false;
  std::uint32_t invalidated = 0;

  std::uint64_t inline_size() const noexcept { return size - header_size; }
};

// RPCSEC_GSS, from a credential.
struct GssFact {
  std::uint32_t control = 0, sequence = 0, service = 0;
};

enum class Form : std::uint8_t {
  kUnknown,
  kShort,    // inline
  kChunked,  // inline but for items in chunks
  kLong,     // in a special chunk
  kPadded,   // RDMA_MSGP of RFC 5666
  kError,    // RDMA_ERROR
  kRecord,   // over TCP
};
std::string_view to_string(Form form) noexcept;

enum class Outcome : std::uint8_t {
  kOpen,       // no answer in the capture
  kAnswered,   // an RPC reply
  kVersion,    // RDMA_ERROR with ERR_VERS
  kChunk,      // RDMA_ERROR with ERR_CHUNK, or of version 2 BAD_HEADER
  kLost,       // the connection ended before the answer
  kReplyOnly,  // the call itself is not in the capture
};
std::string_view to_string(Outcome outcome) noexcept;

// One or several equal steps of a call, for ladders.
struct StepFact {
  enum class Kind : std::uint8_t {
    kCall,
    kReadRequest,
    kReadResponse,
    kWrite,
    kReply,
    kDone,
    kCallAgain,
    kReplyAgain,
  };
  Kind kind = Kind::kCall;
  int side = 0;  // the sender
  Where first, last;
  std::uint32_t count = 1;
  std::uint64_t bytes = 0;
};
std::string_view to_string(StepFact::Kind kind) noexcept;

// One RPC call with everything that belongs to it.
struct CallFact {
  std::uint64_t connection = 0;
  std::uint32_t xid = 0;
  int caller = 0;            // the side that called
  bool is_backward = false;  // the server called the client (RFC 8167)
  std::uint32_t program = 0, version = 0, procedure = 0;
  bool has_rpc_call = false;  // program, version and procedure are known
  std::uint32_t flavor = 0;
  std::optional<GssFact> gss;

  MessageFact call, reply;  // of RDMA; `reply` may be an RDMA_ERROR
  bool has_call = false, has_reply = false;
  Form call_form = Form::kUnknown, reply_form = Form::kUnknown;
  std::uint64_t call_size = 0, reply_size = 0;    // RPC messages with what chunks carried, bytes
  std::uint32_t call_limit = 0, reply_limit = 0;  // inline thresholds, bytes; 0: unknown

  Outcome outcome = Outcome::kOpen;
  bool has_rpc_reply = false;
  std::uint32_t reply_stat = 0, accept_stat = 0, auth_stat = 0;
  std::optional<std::uint32_t> status;       // the first word of the results
  std::optional<std::uint32_t> asked_count;  // the last word of short arguments

  // The first bytes of arguments and results, where the decoder keeps them. Items that went by
  // chunks are not among them.
  std::vector<std::byte> arguments, results;

  std::uint64_t read_bytes = 0, write_bytes = 0;
  std::uint32_t reads = 0, writes = 0;  // RDMA Reads; RDMA Writes as segments on the wire
  std::uint32_t retransmissions = 0;    // on the same connection
  std::uint64_t again_of = 0;           // the connection that it was lost with; 0: none
  std::uint32_t grant = 0;              // that was in force when the call was sent; 0: unknown
  std::uint32_t open_calls = 0;         // including this one, when it was sent
  std::optional<Where> first_read, last_read, first_write, last_write;
  std::vector<StepFact> steps;
  bool is_uncertain = false;  // bytes of the connection are missing in the capture around it

  std::int64_t duration() const noexcept {
    return has_call && has_reply ? reply.last.time - call.first.time : 0;
  }
};

// The durations that a call consists of, nanoseconds.
struct Phases {
  std::int64_t reading = 0;  // from the Call to the end of its RDMA Reads
  std::int64_t server = 0;   // until the first RDMA Write, or the reply
  std::int64_t writing = 0;  // from the first RDMA Write to the last
  std::int64_t reply = 0;    // from there to the reply
};
Phases phases_of(const CallFact& call) noexcept;

// Explains the form of a call or a reply.
std::string reason_of_call(const CallFact& call);
std::string reason_of_reply(const CallFact& call);

// RFC 8797 private data of one side.
struct PrivateDataFact {
  bool takes_invalidation = false;
  std::uint32_t send_size = 0, receive_size = 0;
};

struct SideFact {
  Endpoint endpoint;
  std::optional<PrivateDataFact> private_data;
  bool has_setup = false;  // MPA frame or CM message seen
  std::uint32_t revision = 0, ird = 0, ord = 0;
  bool crc = false, markers = false, is_enhanced = false;
  std::uint64_t packets = 0, bytes = 0, messages = 0;
  std::uint64_t gaps = 0, gap_bytes = 0;  // missing in the capture
  std::uint64_t retransmitted = 0;        // packets whose bytes, or PSNs, came before
  std::uint64_t skipped_bytes = 0;        // between a gap and the next certain message
  std::uint32_t credits = 0;              // the last that it asked for, or granted
};

struct ConnectionFact {
  std::uint64_t number = 0;  // from 1, in the order of appearance
  Transport transport = Transport::kUnknown;
  SideFact sides[2];  // side 0 began the connection, as far as the capture shows
  bool has_beginning = false;
  bool is_version_two = false;
  Where first, last;
  std::string ended_by;  // "FIN of side 0", "Terminate: …"; empty: nothing in the capture
  std::uint64_t calls = 0, answered = 0;
  std::uint32_t open_most = 0;
  std::uint64_t starved = 0;  // calls that took the last credit
};

// One message on the wire below RPC-over-RDMA: an FPDU, or a packet of RoCE.
struct FrameFact {
  Where where;  // of its last byte
  std::uint64_t connection = 0;
  int side = 0;
  std::uint32_t opcode = 0;  // of RDMAP, or of the BTH
  bool is_last = false;
  std::uint32_t queue = 0, sequence = 0, offset = 0;  // untagged; RoCE: PSN in sequence
  std::uint32_t tag = 0;
  std::uint64_t address = 0;
  std::uint32_t size = 0;                                     // ULPDU; RoCE: payload, bytes
  std::uint32_t sink_tag = 0, read_size = 0, source_tag = 0;  // of a Read Request
};

enum class Severity : std::uint8_t { kNote, kWarning, kError };
std::string_view to_string(Severity severity) noexcept;

struct Rule {
  std::string_view id;  // as docs/conformance.md has it, where that has it
  Severity severity;
  std::string_view document, section;
  std::string_view text;  // the rule that was broken
};

struct Finding {
  const Rule* rule = nullptr;
  Where where;
  std::uint64_t connection = 0;
  int side = 0;  // that broke it
  std::optional<std::uint32_t> xid;
  std::string detail;
};

// Receives facts in the order in which they are certain. References are valid during the call.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_frame(const FrameFact&) {}
  virtual void on_message(const MessageFact&, const ConnectionFact&) {}
  virtual void on_call(const CallFact&, const ConnectionFact&) {}
  virtual void on_finding(const Finding&, const ConnectionFact&) {}
  virtual void on_connection(const ConnectionFact&) {}
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_FACTS_H_
