#include "mount/read_ahead.h"

#include <algorithm>
#include <utility>

namespace mounts {

using State = ReadAhead::Block::State;

void ReadAhead::void_block(std::map<std::uint64_t, Block>::iterator at) {
  if (at->second.state == State::kUnderWay) {
    voided_.insert(blocks_.extract(at));  // a node keeps its address
    return;
  }
  in_vain_ += at->second.count - at->second.used;
  blocks_.erase(at);
}

void ReadAhead::drop_all() {
  while (!blocks_.empty()) void_block(blocks_.begin());
  end_of_file_.reset();
}

bool ReadAhead::note_read(std::uint64_t offset, std::size_t size, std::uint64_t stamp, Time now,
                          std::uint64_t file_size) {
  const bool is_old = std::ranges::any_of(
      blocks_, [&](const auto& each) { return now - each.second.begun > kAgeMax; });
  const bool has_lost_blocks = stamp != stamp_ || is_old;
  if (has_lost_blocks) {
    drop_all();
    position_ = 0;  // blocks that were used up may have other bytes by now
  }
  stamp_ = stamp;
  file_size_ = file_size;
  // The kernel has several reads under way, and they may come in another order. A program that
  // reads here and there between its writes, as databases do, would lose all blocks again and
  // again.
  const bool is_near = offset + near() >= expected_ && offset <= expected_ + near();
  const bool is_sequential = offset == expected_ || (is_near && window_ > 0 && !has_lost_blocks);
  if (!is_sequential) {
    drop_all();
    window_ = 0;
    position_ = 0;
    expected_ = offset + size;
    return false;
  }
  if (window_ == 0) {
    // The first read of a file may be its only one: that of a small file, or of a header.
    const bool goes_on = offset > 0 || size >= block_size_;
    window_ = goes_on ? 2 : 1;
  } else if (offset + size > expected_) {
    window_ = std::min(blocks_max_, window_ * 2);
  }
  expected_ = std::max(expected_, offset + size);
  position_ = std::max(position_, offset / block_size_ * block_size_);
  // Programs seldom come back for the rest of blocks that are far behind.
  while (!blocks_.empty() && blocks_.begin()->first + near() < position_) {
    void_block(blocks_.begin());
  }
  return blocks_max_ > 0;
}

std::optional<std::uint64_t> ReadAhead::next() const noexcept {
  if (blocks_.size() + voided_.size() >= blocks_max_) return std::nullopt;
  for (std::uint32_t i = 0; i < window_; ++i) {
    const std::uint64_t offset = position_ + i * block_size_;
    if (offset >= end_of_file_.value_or(file_size_)) return std::nullopt;
    if (!blocks_.contains(offset)) return offset;
  }
  return std::nullopt;
}

ReadAhead::Block& ReadAhead::begin(std::uint64_t offset, Buffer buffer, Time now) {
  Block& block = blocks_[offset];
  block.offset = offset;
  block.buffer = std::move(buffer);
  block.begun = now;
  return block;
}

void ReadAhead::end(Block& block, std::size_t count, int error) {
  const auto [first, last] = voided_.equal_range(block.offset);
  const auto voided =
      std::find_if(first, last, [&](const auto& each) { return &each.second == &block; });
  if (voided != last) {
    in_vain_ += count;
    voided_.erase(voided);
    return;
  }
  block.state = error != 0 ? State::kFailed : State::kReady;
  block.count = count;
  block.error = error;
  if (error == 0 && count < block_size_) end_of_file_ = block.offset + count;
}

ReadAhead::Block* ReadAhead::find(std::uint64_t offset) noexcept {
  const auto found = blocks_.find(offset / block_size_ * block_size_);
  return found != blocks_.end() ? &found->second : nullptr;
}

void ReadAhead::note_used(std::uint64_t begin, std::uint64_t end) {
  for (auto each = blocks_.begin(); each != blocks_.end() && each->first < end;) {
    Block& block = each->second;
    const auto at = each++;
    if (block.state != State::kReady || at->first + block.count <= begin) continue;
    const std::uint64_t first = std::max(begin, at->first);
    const std::uint64_t last = std::min(end, at->first + block.count);
    block.used = std::min(block.count, block.used + static_cast<std::size_t>(last - first));
    if (block.used < block.count) continue;
    position_ = std::max(position_, at->first + block_size_);  // it is not read once more
    blocks_.erase(at);
  }
}

void ReadAhead::drop_failed(Block& block) {
  blocks_.erase(block.offset);
}

bool ReadAhead::is_idle() const noexcept {
  return voided_.empty() && std::ranges::none_of(blocks_, [](const auto& each) {
           return each.second.state == State::kUnderWay;
         });
}

}  // namespace mounts
