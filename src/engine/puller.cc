#include "engine/puller.h"

#include <algorithm>

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
  lend_head(offered, memory, offset, offered.chunks()[chunk_].size);
  is_head_ = false;
}

void Puller::lend_head(OfferedChunks& offered, Lease memory, std::uint64_t offset,
                       std::uint32_t size) noexcept {
  ReadChunk& chunk = offered.chunks()[chunk_];
  chunk.data = {memory, std::min(size, chunk.size), offset, 0};
  read_ = chunk.first;
  read_size_ = 0;
  is_head_ = true;
}

Puller::Emitted Puller::emit(const OfferedChunks& offered, WorkId id, ReadSlots& slots,
                             WorkRoom& room, std::uint32_t& posted) {
  const ReadChunk& chunk = offered.chunks()[chunk_];
  for (; read_ < chunk.first + chunk.count; ++read_) {
    const wire::Segment& from = offered.read(read_);
    const std::uint32_t size = std::min(from.length, chunk.data.size - read_size_);
    if (size == 0) continue;
    if (!slots.free()) return Emitted::kNoReadSlot;
    if (room.full()) return Emitted::kRoomIsFull;
    auto& read = room.add<work::Read>(id);
    read.into = {chunk.data.memory, size, chunk.data.offset + read_size_};
    read.from = to_remote({from.handle, size, from.offset});
    read_size_ += size;
    slots.take();
    ++posted;
  }
  return Emitted::kAll;
}

bool Puller::finish_chunk(const OfferedChunks& offered) noexcept {
  const ReadChunk& chunk = offered.chunks()[chunk_];
  if (read_ != chunk.first + chunk.count) return false;
  if (is_head_) return true;
  ++chunk_;
  return true;
}

}  // namespace rpcrdma::engine
