// The steering tags of one stream: which memory the peer may reach, how, and where it seems to be.
//
// A tag is worth as much as it is hard to guess (RFC 5042 §6): it is 32 bits drawn anew for each
// exposure, with the slot's index folded in so that a look-up is one table access. Addresses
// (tagged offsets) start at a random 48-bit base that says nothing about our address space and
// never wraps.
#ifndef RPCRDMA_IWARP_TAG_TABLE_H_
#define RPCRDMA_IWARP_TAG_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/ring.h"
#include "rpcrdma/steering_tag.h"
#include "rpcrdma/types.h"

namespace rpcrdma::iwarp {

enum class Right : std::uint8_t {
  kRead,   // the peer's RDMA Read may take it
  kWrite,  // the peer's RDMA Write may fill it
  kSink,   // only the Read Response to our own RDMA Read may fill it
};

// One live tag.
struct Exposure {
  SteeringTag tag{};
  Right right = Right::kRead;
  bool live = false;
  std::uint64_t base = 0;             // address of the first byte
  std::size_t size = 0;               // bytes
  const std::byte* source = nullptr;  // kRead
  std::byte* target = nullptr;        // kWrite, kSink
  std::uint64_t sent_end = 0;  // position in our output behind the last byte taken from this memory
};

// Grows to the number of tags that are live at a time.
class TagTable {
 public:
  // The result of checking an access; each layer of the wire has its own codes for the refusals.
  enum class Verdict : std::uint8_t { kOk, kInvalidTag, kAccess, kBounds, kWrap };

  // `slots`: tags that can be live at a time, at least 1. `random` outlives the table.
  TagTable(std::uint32_t slots, RandomSource& random);

  // Makes a new tag for memory that stays the caller's; null when all slots are in use. The result
  // is valid until another tag is made or this one is removed.
  const Exposure* add_source(Bytes memory);
  const Exposure* add_target(MutableBytes memory, Right right);

  // The live exposure of that name, or null. Valid as above.
  Exposure* find(SteeringTag tag) noexcept;
  // Checks an access of `size` bytes, size > 0. On kOk *found is set.
  Verdict check(SteeringTag tag, Right right, std::uint64_t address, std::uint64_t size,
                Exposure** found) noexcept;
  // Makes the tag invalid for ever, unless chance brings the same 32 bits back.
  bool remove(SteeringTag tag) noexcept;
  void clear() noexcept;

  // Live places of at least kLargeTarget bytes that the peer, or a Read Response, may fill.
  static constexpr std::size_t kLargeTarget = 8 * 1024;
  std::uint32_t large_targets() const noexcept { return large_targets_; }
  std::uint32_t live() const noexcept { return live_; }
  std::uint32_t free() const noexcept { return slots_ - live_; }

 private:
  std::uint32_t index_of(std::uint32_t tag) const noexcept;
  void grow();
  Exposure* take(Right right, std::size_t size);
  void release(Exposure& exposure, std::uint32_t index) noexcept;

  RandomSource& random_;
  std::uint32_t slots_;
  std::uint32_t live_ = 0;
  std::uint32_t large_targets_ = 0;
  unsigned index_bits_;
  std::uint32_t secret_;             // mixes the index with the random bits
  std::vector<Exposure> exposures_;  // the slots that there are so far
  Ring<std::uint32_t> free_;         // of them; oldest first: a slot rests as long as possible
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_TAG_TABLE_H_
