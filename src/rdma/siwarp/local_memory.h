// The memory that a connection's own work may name: what is attached, and where the slices of the
// batch that is being posted lie.
#ifndef RPCRDMA_RDMA_SIWARP_LOCAL_MEMORY_H_
#define RPCRDMA_RDMA_SIWARP_LOCAL_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rdma/regions.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::siwarp {

class LocalMemory {
 public:
  // `slices_max`: of one request.
  LocalMemory(std::uint32_t regions_max, std::uint32_t slices_max)
      : regions_(std::min(regions_max, Regions::kSlotsMax)), slices_max_(slices_max) {
    // Batches of the usual size do not allocate.
    readable_.reserve(kBatchSlices);
    writable_.reserve(kBatchSlices);
  }

  // Null for `writable`: the memory is read only.
  Expected<RegionId, Error> attach(Bytes memory, std::byte* writable) {
    const auto id = regions_.add(memory, writable);
    if (!id) return Unexpected<Error>(Error{Errc::kNoResources, 0, "attach: too many regions"});
    ++attached_;
    return *id;
  }
  void detach(RegionId region) { regions_.remove(region); }
  std::uint64_t attached() const noexcept { return attached_; }               // regions, so far
  std::uint64_t attached_bytes() const noexcept { return regions_.bytes(); }  // at present

  // A batch is checked as a whole before any of it is taken. Each slice is looked up once, when its
  // request is checked; the requests then take their memory in the same order.
  void begin_batch() noexcept {
    readable_.clear();
    writable_.clear();
    next_readable_ = next_writable_ = 0;
  }
  // One slice that is used at once. False: it does not lie in attached memory.
  bool find_readable(const Slice& slice, Bytes& memory) const {
    return regions_.find_readable(slice, memory);
  }
  // False: the slices are too many or too long for one request, or do not lie in attached memory
  // with this right.
  bool look_up_readable(std::span<const Slice> slices) {
    if (slices.size() == 1) return regions_.find_readable(slices[0], readable_.emplace_back());
    if (slices.size() > slices_max_) return false;
    std::uint64_t size = 0;
    for (const Slice& slice : slices) {
      if (!regions_.find_readable(slice, readable_.emplace_back())) return false;
      size += slice.size;
    }
    return size <= kMessageMax;
  }
  bool look_up_writable(std::span<const Slice> slices) {
    if (slices.size() > slices_max_) return false;
    std::uint64_t size = 0;
    for (const Slice& slice : slices) {
      if (!look_up_writable(slice)) return false;
      size += slice.size;
    }
    return size <= kMessageMax;
  }
  bool look_up_writable(const Slice& slice) {
    return regions_.find_writable(slice, writable_.emplace_back());
  }
  // The memory of the next slices. Precondition: so many were looked up and are not taken.
  std::span<const Bytes> take_readable(std::size_t count) {
    next_readable_ += count;
    return std::span(readable_).subspan(next_readable_ - count, count);
  }
  std::span<const MutableBytes> take_writable(std::size_t count) {
    next_writable_ += count;
    return std::span(writable_).subspan(next_writable_ - count, count);
  }

 private:
  static constexpr std::size_t kBatchSlices = 256;
  static constexpr std::uint64_t kMessageMax = 0xffffffffU;  // bytes of one request

  Regions regions_;
  const std::uint32_t slices_max_;
  std::uint64_t attached_ = 0;
  std::vector<Bytes> readable_;
  std::vector<MutableBytes> writable_;
  std::size_t next_readable_ = 0, next_writable_ = 0;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_LOCAL_MEMORY_H_
