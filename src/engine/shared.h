// What the two halves of a connection share.
#ifndef RPCRDMA_ENGINE_SHARED_H_
#define RPCRDMA_ENGINE_SHARED_H_

#include <cstddef>
#include <cstdint>

#include "base/ring.h"
#include "engine/dialect.h"
#include "engine/read_slots.h"
#include "engine/receive_ledger.h"
#include "engine/types.h"

namespace rpcrdma::engine {

struct Shared {
  Shared(std::size_t events_max, std::size_t readers_max, ReceiveLedger&& ledger)
      : events(events_max), receives(std::move(ledger)), reads(readers_max) {}

  Ring<Event> events;  // on their way up
  ReceiveLedger receives;
  ReadSlots reads;
  Negotiated link;
  bool disconnect = false;  // a Disconnect action is to be emitted
  GivenUp given_up = GivenUp::kNot;
  bool connected = false;
  Counters counters;
  // Scratch: of the message that is being looked at, or of the header that is being made.
  wire::ChunkLists lists;
};

// Memory for Transport headers: one place per slot, all in one registered arena, so that a header
// is encoded where it is sent from.
class HeaderArena {
 public:
  static constexpr std::uint32_t kSizeMax = 4096;  // the largest header with every limit reached
  // Not a multiple of the page size: places at the same offset of their pages share a few sets of
  // the cache.
  static constexpr std::uint32_t kPlaceSize = kSizeMax + 192;

  // The places from `first` on.
  explicit HeaderArena(MutableBytes memory, std::size_t first = 0) noexcept
      : memory_(memory), first_(first) {}
  MutableBytes place(std::size_t slot) const noexcept {
    return memory_.subspan(offset(slot), kPlaceSize);
  }
  // Of a place in the arena, bytes.
  std::uint32_t offset(std::size_t slot) const noexcept {
    return static_cast<std::uint32_t>((first_ + slot) * kPlaceSize);
  }

 private:
  MutableBytes memory_;
  std::size_t first_;
};

// Where a short header of `size` bytes goes in Outgoing::header_room, in front of a message's first
// run, which then begins with it.
inline MutableBytes header_in_front(Fragment& first, std::byte* room, std::uint32_t size) noexcept {
  first.offset -= size;
  first.size += size;
  return {room + kShortHeaderSizeMax - size, size};
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_SHARED_H_
