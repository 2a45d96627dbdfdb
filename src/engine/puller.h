// Pulls the Read chunks of one Call, one after the other, into memory that the layer above lends.
#ifndef RPCRDMA_ENGINE_PULLER_H_
#define RPCRDMA_ENGINE_PULLER_H_

#include <cstdint>
#include <optional>

#include "engine/offered_chunks.h"
#include "engine/read_slots.h"
#include "engine/types.h"
#include "engine/work_room.h"

namespace rpcrdma::engine {

class Puller {
 public:
  void clear() noexcept { chunk_ = read_ = 0; }

  // The next chunk that needs memory; null: all are here. Chunks of no bytes need none.
  const ReadChunk* wanted(OfferedChunks& offered) noexcept;
  // The Call itself, when it is in a Read chunk that is here already.
  std::optional<Fragment> long_part(const OfferedChunks& offered) const noexcept;
  // Precondition of both: wanted() gave a chunk; and for restart(), after the Call itself, which is
  // then wanted again.
  void lend(OfferedChunks& offered, Lease memory, std::uint64_t offset) noexcept;
  bool may_restart(const OfferedChunks& offered) const noexcept {
    return chunk_ > 0 && offered.has_position_zero();
  }
  void restart() noexcept { chunk_ = 0; }

  enum class Emitted : std::uint8_t { kAll, kNoReadSlot, kRoomIsFull };
  // Emits the Reads of the chunk; adds to `posted` for each.
  Emitted emit(const OfferedChunks& offered, WorkId id, ReadSlots& slots, WorkRoom& room,
               std::uint32_t& posted);
  // When no Read is under way. False: more of the chunk is to be emitted.
  bool finish_chunk(const OfferedChunks& offered) noexcept;

 private:
  std::uint16_t chunk_ = 0;        // the chunk that is wanted or pulled
  std::uint16_t read_ = 0;         // the next of its segments to emit
  std::uint64_t read_offset_ = 0;  // where it lands in the chunk's memory
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_PULLER_H_
