// Which transfer form a message takes and which chunks it has: pure functions, no state.
//
// RFC 8166 §3.5: Short (all inline), Chunked (DDP-eligible items reduced), Long (the rest in a
// Position-Zero Read chunk or a Reply chunk).
#ifndef RPCRDMA_ENGINE_CHUNK_PLANNER_H_
#define RPCRDMA_ENGINE_CHUNK_PLANNER_H_

#include <cstdint>
#include <span>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "wire/v1/header.h"

namespace rpcrdma::engine {

enum class ChunkKind : std::uint8_t { kRead, kWrite, kReply };

// Memory that a Call advertises: one segment of one chunk.
struct PlannedSegment {
  Lease memory;
  std::uint32_t size;
  std::uint64_t offset;
  ChunkKind kind;
  std::uint32_t chunk;  // kRead: position in the unreduced stream; kWrite: index in the Write list
  bool operator==(const PlannedSegment&) const = default;
};

struct CallPlan {
  bool is_long = false;    // NOMSG: the stream is in a Position-Zero Read chunk
  bool is_padded = false;  // RDMA_MSGP: no segments
  BoundedVector<Fragment, kFragmentsMax> inline_runs;     // what the Send carries behind the header
  BoundedVector<PlannedSegment, kExposuresMax> segments;  // Read list, Write list, Reply chunk
  std::uint32_t header_size = 0;                          // bytes
  // RDMA_MSGP: so many bytes go in front of inline_runs[pad_before].
  std::uint32_t pad_size = 0, pad_before = 0;
  std::uint32_t pad_threshold = 0;  // bytes; smaller opaque data is not padded
};

// How to read a message that came as RDMA_MSGP.
Padding padding_of(const wire::v1::Msgp& message, const Options& options) noexcept;

// Profile::kRfc5666: whether the Call leaves it to the responder to answer by Read chunks.
bool may_be_answered_by_read(const Outgoing& call, const Options& options,
                             const Negotiated& negotiated) noexcept;

// Decides the form of a Call. `inline_send` is the call threshold, `inline_receive` the reply
// threshold, both with the header, in bytes.
Expected<void, StartError> plan_call(const Outgoing& call, const Options& options,
                                     const Negotiated& negotiated, CallPlan& plan);

enum class ReplyForm : std::uint8_t { kMsg, kNoMsg, kErrChunk };

struct ReplyPlan {
  ReplyForm form = ReplyForm::kMsg;
  BoundedVector<Fragment, kFragmentsMax>
      stream;  // the reduced stream: inline, or for the Reply chunk
  BoundedVector<Fragment, kFragmentsMax>
      items;  // what goes into Write chunks; item = chunk index + 1
};

// Decides the form of a reply from the chunks that its Call offered and fills `returned`, the lists
// of the reply's header: in the shortened form only what was used, in the full form every segment
// with its length rewritten. kErrChunk when the reply fits nowhere (RFC 8166 §4.5.3).
void plan_reply(std::span<const Fragment> stream, const wire::v1::WriteList& writes, bool has_reply,
                std::span<const wire::Segment> reply_chunk, const Options& options,
                const Negotiated& negotiated, ReplyPlan& plan, wire::v1::ChunkLists& returned);

// The Reply chunk in the header of a reply, of which `used` bytes were written.
void return_reply_chunk(wire::v1::ChunkLists& lists, std::span<const wire::Segment> offered,
                        std::uint64_t used, ReturnForm form);

// Walks source runs and target segments side by side and yields the largest pieces that are
// contiguous in both. The spans are given anew each time; only the place is remembered.
class SegmentFiller {
 public:
  struct Piece {
    Lease from;
    std::uint64_t from_offset;
    wire::Segment to;
  };
  // nullopt-like: false at the end of the source. Precondition: the targets hold the source.
  bool next(std::span<const Fragment> source, std::span<const wire::Segment> target, Piece& piece);

 private:
  std::uint16_t run_ = 0, segment_ = 0;
  std::uint32_t run_done_ = 0, segment_done_ = 0;  // bytes
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CHUNK_PLANNER_H_
