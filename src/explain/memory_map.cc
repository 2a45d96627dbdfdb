#include "explain/memory_map.h"

#include <algorithm>

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kClosedMax = 128;
constexpr std::size_t kOpenMax = 65536;
constexpr std::size_t kSameMax = 16;    // segments of one handle and one offset
constexpr std::size_t kStepsMax = 128;  // segments of one handle that a search passes

}  // namespace

void MemoryMap::add_one(int owner, const Offered& offered) {
  Open& open = open_[owner];
  const Place place{offered.segment.handle, offered.segment.offset};
  // A peer that offers one place again and again would make each search long.
  auto at = open.lower_bound(place);
  for (std::size_t same = 0; at != open.end() && at->first == place; ++at) {
    if (++same == kSameMax) return;
  }
  if (open.size() < kOpenMax) open.emplace_hint(at, place, offered);
}

void MemoryMap::add(int owner, CallRecord& call, const MessageFact& message, bool is_reply) {
  std::uint64_t stream = 0;
  for (std::uint32_t i = 0; i < message.reads.size(); ++i) {
    const SegmentFact& read = message.reads[i];
    add_one(owner, {&call, read, is_reply ? Use::kReplyRead : Use::kRead, 0, i, stream});
    if (read.position == 0) stream += read.length;
  }
  if (is_reply) return;
  for (std::uint32_t chunk = 0; chunk < message.writes.size(); ++chunk) {
    for (std::uint32_t i = 0; i < message.writes[chunk].size(); ++i) {
      add_one(owner, {&call, message.writes[chunk][i], Use::kWrite, chunk, i, 0});
    }
  }
  stream = 0;
  for (std::uint32_t i = 0; i < message.reply_chunk.size(); ++i) {
    add_one(owner, {&call, message.reply_chunk[i], Use::kReply, 0, i, stream});
    stream += message.reply_chunk[i].length;
  }
}

void MemoryMap::close_one(int owner, const CallRecord& call, const SegmentFact& segment) {
  auto [at, end] = open_[owner].equal_range({segment.handle, segment.offset});
  while (at != end) {
    at = at->second.call == &call ? open_[owner].erase(at) : std::next(at);
  }
  closed_[owner].push_back(segment);
  if (closed_[owner].size() > kClosedMax) closed_[owner].pop_front();
}

void MemoryMap::close(int owner, const CallRecord& call, const MessageFact& message) {
  for (const SegmentFact& each : message.reads) close_one(owner, call, each);
  for (const Chunk& chunk : message.writes) {
    for (const SegmentFact& each : chunk) close_one(owner, call, each);
  }
  for (const SegmentFact& each : message.reply_chunk) close_one(owner, call, each);
}

const Offered* MemoryMap::find(int owner, std::uint32_t tag, std::uint64_t address,
                               std::uint32_t size) const {
  const Open& open = open_[owner];
  auto at = open.upper_bound({tag, address});
  const Offered* found = nullptr;
  if (at != open.end() && at->first.first == tag) found = &at->second;
  // Those that begin in front of the address, from the nearest on.
  for (std::size_t steps = 0; at != open.begin() && steps < kStepsMax; ++steps) {
    --at;
    if (at->first.first != tag) break;
    if (holds(at->second.segment, address, size)) return &at->second;
    if (steps == 0) found = &at->second;
  }
  return found;
}

bool MemoryMap::was_answered(int owner, std::uint32_t tag, std::uint64_t address,
                             std::uint32_t size) const {
  return std::any_of(closed_[owner].begin(), closed_[owner].end(), [&](const SegmentFact& each) {
    return each.handle == tag && holds(each, address, size);
  });
}

const CallRecord* MemoryMap::other_call(int owner, const CallRecord& call,
                                        const SegmentFact& segment) const {
  const Open& open = open_[owner];
  const std::uint64_t last = segment.offset + std::max<std::uint32_t>(segment.length, 1) - 1;
  auto at = open.upper_bound({segment.handle, std::max(last, segment.offset)});
  for (std::size_t steps = 0; at != open.begin() && steps < kStepsMax; ++steps) {
    --at;
    if (at->first.first != segment.handle) break;
    const SegmentFact& other = at->second.segment;
    const bool begins_inside = other.offset >= segment.offset;
    const bool meets = begins_inside ? other.offset - segment.offset < segment.length
                                     : segment.offset - other.offset < other.length;
    if (at->second.call != &call && meets) return at->second.call;
  }
  return nullptr;
}

}  // namespace rpcrdma::explain
