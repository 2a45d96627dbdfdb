// The memory that the calls of a connection have offered: which handle belongs to which call.
#ifndef RPCRDMA_EXPLAIN_MEMORY_MAP_H_
#define RPCRDMA_EXPLAIN_MEMORY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "explain/call_record.h"

namespace rpcrdma::explain {

enum class Use : std::uint8_t { kRead, kWrite, kReply, kReplyRead };

struct Offered {
  CallRecord* call = nullptr;
  SegmentFact segment;
  Use use = Use::kRead;
  std::uint32_t chunk = 0, index = 0;
  std::uint64_t stream_offset = 0;  // of the segment in a Long message
};

class MemoryMap {
 public:
  // Adds all segments of the message's chunks. `owner` sent it.
  void add(int owner, CallRecord& call, const MessageFact& message, bool is_reply);
  // Forgets them, and remembers for a while that they were answered.
  void close(int owner, const CallRecord& call, const MessageFact& message);

  // Returns the segment that holds all these bytes, else one of the handle; null: no such handle.
  const Offered* find(int owner, std::uint32_t tag, std::uint64_t address,
                      std::uint32_t size) const;
  // Returns whether these bytes belong to a call that was answered lately.
  bool was_answered(int owner, std::uint32_t tag, std::uint64_t address, std::uint32_t size) const;
  // Returns a call other than this one that has offered the same bytes.
  const CallRecord* other_call(int owner, const CallRecord& call, const SegmentFact& segment) const;

  static bool holds(const SegmentFact& segment, std::uint64_t address,
                    std::uint32_t size) noexcept {
    return address >= segment.offset && size <= segment.length &&
           address - segment.offset <= segment.length - size;
  }

 private:
  void add_one(int owner, const Offered& offered);
  void close_one(int owner, const CallRecord& call, const SegmentFact& segment);

  using Place = std::pair<std::uint32_t, std::uint64_t>;  // handle and offset
  using Open = std::multimap<Place, Offered>;

  Open open_[2];  // by the side whose memory it is
  std::deque<SegmentFact> closed_[2];
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_MEMORY_MAP_H_
