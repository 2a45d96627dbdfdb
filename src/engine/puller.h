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
  void clear() noexcept {
    chunk_ = read_ = 0;
    is_head_ = false;
  }

  // The next chunk that needs memory; null: all are here. Chunks of no bytes need none.
  const ReadChunk* wanted(OfferedChunks& offered) noexcept;
  // The Call itself, when it is in a Read chunk that is here already.
  std::optional<Fragment> long_part(const OfferedChunks& offered) const noexcept;
  // Precondition of all: wanted() gave a chunk; and for restart(), after the Call itself, which is
  // then wanted again.
  void lend(OfferedChunks& offered, Lease memory, std::uint64_t offset) noexcept;
  // Reads the first `size` bytes of the chunk, no more than it has. It is wanted again then.
  void lend_head(OfferedChunks& offered, Lease memory, std::uint64_t offset,
                 std::uint32_t size) noexcept;
  bool has_head(const OfferedChunks& offered) const noexcept {
    return is_head_ && read_size_ == offered.chunks()[chunk_].data.size;
  }
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
  std::uint16_t chunk_ = 0;      // the chunk that is wanted or pulled
  std::uint16_t read_ = 0;       // the next of its segments to emit
  bool is_head_ = false;         // no more than the start of the chunk is read
  std::uint32_t read_size_ = 0;  // bytes that were emitted
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_PULLER_H_
