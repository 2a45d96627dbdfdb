#include "transport/receive_memory.h"

#include <algorithm>
#include <new>

namespace rpcrdma::transport {
namespace {

constexpr std::size_t kAlignmentMin = 64;

}  // namespace

ReceiveMemory::ReceiveMemory(rdma::QueuePair& queue_pair, std::size_t count, std::size_t alignment)
    : queue_pair_(queue_pair), alignment_(std::max(alignment, kAlignmentMin)), epoch_of_(count) {}

// Not a multiple of the page size, as with header places, unless the alignment wants it.
std::size_t ReceiveMemory::stride_of(std::uint32_t size) const noexcept {
  const std::size_t aligned = (size + alignment_ - 1) & ~(alignment_ - 1);
  return aligned + (alignment_ == kAlignmentMin ? 192 : 0);
}

bool ReceiveMemory::set_size(std::uint32_t size) {
  if (epochs_.size() == kEpochsMax) return false;
  auto epoch = std::make_unique<Epoch>();
  epoch->size = size;
  epoch->stride = stride_of(size);
  if (!queue_pair_.capabilities().shares_receives) {
    const std::size_t bytes = epoch_of_.size() * epoch->stride;
    const std::align_val_t alignment{alignment_};
    // In the middle of a connection's turn, where a lack of memory is no reason to throw.
    epoch->memory = {new (alignment, std::nothrow) std::byte[bytes], Free{alignment}};
    if (epoch->memory == nullptr) return false;
    const auto region = queue_pair_.attach({epoch->memory.get(), bytes});
    if (!region) return false;
    epoch->region = *region;
  }
  epochs_.push_back(std::move(epoch));
  return true;
}

rdma::ReceiveBuffers ReceiveMemory::buffers() const noexcept {
  const Epoch& newest = *epochs_.back();
  return {newest.region, newest.size, newest.stride};
}

void ReceiveMemory::posted(std::span<const std::uint16_t> numbers) {
  Epoch* const newest = epochs_.back().get();
  bool any_left = false;  // an older epoch
  for (const std::uint16_t number : numbers) {
    Epoch*& epoch = epoch_of_[number];
    if (epoch == newest) continue;
    if (epoch != nullptr) any_left = --epoch->numbers == 0 || any_left;
    epoch = newest;
    ++newest->numbers;
  }
  if (!any_left) return;
  std::erase_if(epochs_, [&](const std::unique_ptr<Epoch>& epoch) {
    if (epoch.get() == newest || epoch->numbers > 0) return false;
    if (epoch->memory) queue_pair_.detach(epoch->region);
    return true;
  });
}

}  // namespace rpcrdma::transport
