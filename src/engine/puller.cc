#include "engine/puller.h"

namespace rpcrdma::engine {

const ReadChunk* Puller::wanted(OfferedChunks& offered) noexcept {
  auto& chunks = offered.chunks();
  for (; chunk_ < chunks.size(); ++chunk_) {
    if (chunks[chunk_].size > 0) return &chunks[chunk_];
    chunks[chunk_].data = {Lease{}, 0, 0, 0};
  }
  return nullptr;
}

std::optional<Fragment> Puller::long_part(const OfferedChunks& offered) const noexcept {
  if (!may_restart(offered)) return std::nullopt;
  return offered.chunks()[0].data;
}

void Puller::lend(OfferedChunks& offered, Lease memory, std::uint64_t offset) noexcept {
  ReadChunk& chunk = offered.chunks()[chunk_];
  chunk.data = {memory, chunk.size, offset, 0};
  read_ = chunk.first;
  read_offset_ = offset;
}

Puller::Emitted Puller::emit(const OfferedChunks& offered, WorkId id, ReadSlots& slots,
                             WorkRoom& room, std::uint32_t& posted) {
  const ReadChunk& chunk = offered.chunks()[chunk_];
  for (; read_ < chunk.first + chunk.count; ++read_) {
    const wire::Segment& from = offered.read(read_);
    if (from.length == 0) continue;
    if (!slots.free()) return Emitted::kNoReadSlot;
    if (room.full()) return Emitted::kRoomIsFull;
    auto& read = room.add<work::Read>(id);
    read.into = {chunk.data.memory, from.length, read_offset_};
    read.from = to_remote(from);
    read_offset_ += from.length;
    slots.take();
    ++posted;
  }
  return Emitted::kAll;
}

bool Puller::finish_chunk(const OfferedChunks& offered) noexcept {
  const ReadChunk& chunk = offered.chunks()[chunk_];
  if (read_ != chunk.first + chunk.count) return false;
  ++chunk_;
  return true;
}

}  // namespace rpcrdma::engine
