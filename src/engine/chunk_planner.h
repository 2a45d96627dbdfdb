// Chooses the transfer form of a message and its chunks: pure functions, no state.
//
// RFC 8166 §3.5: Short (all inline), Chunked (DDP-eligible items reduced), Long (the rest in a
// Position-Zero Read chunk or a Reply chunk).
#ifndef RPCRDMA_ENGINE_CHUNK_PLANNER_H_
#define RPCRDMA_ENGINE_CHUNK_PLANNER_H_

#include <cstdint>
#include <span>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "wire/chunk_lists.h"

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
  bool is_long = false;  // the stream is in a Position-Zero Read chunk
  BoundedVector<Fragment, kFragmentsMax> inline_runs;     // what the Send carries behind the header
  BoundedVector<PlannedSegment, kExposuresMax> segments;  // Read list, Write list, Reply chunk
  std::uint32_t header_size = 0;                          // bytes
};

// Returns whether there is nothing to plan: the stream is one inline run that fits the message, and
// the largest reply fits as well.
inline bool is_short_call(const Outgoing& call, const LinkParameters& link) noexcept {
  const std::uint64_t header = header_sizes(link.dialect).shortest;
  return call.stream.size() == 1 && call.stream[0].item == 0 && call.stream[0].size > 0 &&
         call.results.empty() && header + call.stream[0].size <= link.inline_send &&
         header + call.reply_size_max <= link.inline_receive;
}

// The way in which a reply moves that does not fit its message.
enum class AnswerBy : std::uint8_t {
  kWrites,  // the responder, into Write chunks and a Reply chunk that the Call offers (RFC 8166)
  kReads,   // the requester: the Call offers nothing (RFC 5666 §3.8)
};

// Decides the form of a Call.
Expected<void, StartError> plan_call(const Outgoing& call, const Options& options,
                                     const LinkParameters& link, AnswerBy answer_by,
                                     CallPlan& plan);

// The part of it that is about the reply: adds Write chunks for the results, and the Reply chunk,
// to a plan where they are needed.
Expected<void, StartError> plan_answer(const Outgoing& call, const Options& options,
                                       const LinkParameters& link, AnswerBy answer_by,
                                       CallPlan& plan);

enum class ReplyForm : std::uint8_t { kMsg, kNoMsg, kErrChunk };

struct ReplyPlan {
  ReplyForm form = ReplyForm::kMsg;
  BoundedVector<Fragment, kFragmentsMax>
      stream;  // the reduced stream: inline, or for the Reply chunk
  BoundedVector<Fragment, kFragmentsMax>
      items;  // what goes into Write chunks; item = chunk index + 1
};

// Returns the same as is_short_call(), for a reply to a Call that offers no chunks for it.
inline bool is_short_reply(std::span<const Fragment> stream, const LinkParameters& link) noexcept {
  return stream.size() == 1 && stream[0].item == 0 && stream[0].size > 0 &&
         std::uint64_t{header_sizes(link.dialect).shortest} + stream[0].size <= link.inline_send;
}

// Decides the form of a reply from the chunks that its Call offered and fills `returned`, the lists
// of the reply's header: in the shortened form only what was used, in the full form every segment
// with its length rewritten. kErrChunk when the reply fits nowhere (RFC 8166 §4.5.3).
void plan_reply(std::span<const Fragment> stream, const wire::WriteList& writes, bool has_reply,
                std::span<const wire::Segment> reply_chunk, const Options& options,
                const LinkParameters& link, ReplyPlan& plan, wire::ChunkLists& returned);

// The Reply chunk in the header of a reply, of which `used` bytes were written.
void return_reply_chunk(wire::ChunkLists& lists, std::span<const wire::Segment> offered,
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

// Yields the RDMA Writes of a reply: what goes into the Write chunks, then into the Reply chunk.
class ReplyFiller {
 public:
  // The arguments are those that the reply was planned with, each time. `in_reply_chunk`: the
  // stream goes there. False: that was all.
  bool next(const ReplyPlan& plan, const wire::WriteList& writes,
            std::span<const wire::Segment> reply_chunk, bool in_reply_chunk,
            SegmentFiller::Piece& piece);

 private:
  std::uint16_t chunk_ = 0;  // the Write chunk being filled; then the Reply chunk
  SegmentFiller filler_;
};

// Counts the form of a reply, and the chunks that it uses and their bytes. `plan`: null when it is
// a single inline run; `has_write_list`: its Call offered Write chunks.
void count_reply(const ReplyPlan* plan, bool has_write_list, Counters& counters);

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_CHUNK_PLANNER_H_
