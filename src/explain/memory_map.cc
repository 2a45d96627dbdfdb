#include "explain/memory_map.h"

#include <algorithm>

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kClosedMax = 128;
constexpr std::size_t kOpenMax = 65536;

}  // namespace

void MemoryMap::add_one(int owner, const Offered& offered) {
  if (open_[owner].size() < kOpenMax) open_[owner].emplace(offered.segment.handle, offered);
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
  auto [at, end] = open_[owner].equal_range(segment.handle);
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
  const Offered* found = nullptr;
  const auto [begin, end] = open_[owner].equal_range(tag);
  for (auto at = begin; at != end; ++at) {
    if (holds(at->second.segment, address, size)) return &at->second;
    found = &at->second;
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
  const auto [begin, end] = open_[owner].equal_range(segment.handle);
  for (auto at = begin; at != end; ++at) {
    const SegmentFact& other = at->second.segment;
    const bool meets = segment.offset < other.offset + other.length &&
                       other.offset < segment.offset + segment.length;
    if (at->second.call != &call && meets) return at->second.call;
  }
  return nullptr;
}

}  // namespace rpcrdma::explain
