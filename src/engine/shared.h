// The state that the two halves of a connection share.
#ifndef RPCRDMA_ENGINE_SHARED_H_
#define RPCRDMA_ENGINE_SHARED_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ring.h"
#include "engine/dialect.h"
#include "engine/read_slots.h"
#include "engine/receive_ledger.h"
#include "engine/types.h"
#include "engine/v2/option_credits.h"

namespace rpcrdma::engine {

struct Shared {
  Shared(const Options& options, std::size_t events_max, std::size_t readers_max,
         ReceiveLedger&& ledger)
      : versions(options.versions),
        limits(options.limits),
        events(events_max),
        receives(std::move(ledger)),
        reads(readers_max) {}

  // A message that cannot be used.
  void drop(ReceiveId receive, std::uint64_t& counter) {
    ++counter;
    receives.repost(receive);
  }

  // Ends the connection, and keeps the first reason for it.
  void give_up(GivenUp why) noexcept {
    disconnect = true;
    if (given_up == GivenUp::kNot) given_up = why;
  }

  // Returns how many messages have come; it wraps.
  std::uint32_t arrivals() const noexcept {
    return static_cast<std::uint32_t>(counters.messages_received);
  }
  // A message that came; its chunks are in `lists`.
  Received decode_any(Bytes message) noexcept { return decode(versions, message, limits, lists); }
  const LinkParameters& link_of(Dialect dialect) const noexcept {
    return links[static_cast<std::size_t>(dialect)];
  }
  void set_links(const LinkParameters& v1) noexcept;
  // Applies a changed characteristic to all that is planned from now on.
  void update_v2(const LinkParameters& v2) noexcept {
    links[static_cast<std::size_t>(Dialect::kV2)] = v2;
    if (link.dialect == Dialect::kV2 && !is_offering) link = v2;
  }
  // Our own Calls are in this version from now on.
  void speak(Dialect dialect) noexcept {
    link = link_of(dialect);
    is_offering = false;
  }

  const Versions versions;
  const wire::Limits limits;
  Ring<Event> events;  // on their way up
  ReceiveLedger receives;
  ReadSlots reads;
  LinkParameters link;                  // for the Calls that we make
  std::array<LinkParameters, 2> links;  // by Dialect, for the replies
  bool is_offering = false;             // client: the peer has not answered a Call of version 2 yet
  bool takes_backward_chunks = false;   // client: this side has said so, for version 2
  bool disconnect = false;              // the connection is to be ended
  GivenUp given_up = GivenUp::kNot;
  OptionCredits option_credits;  // client, version 2
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

  // The places from `first` on, in memory that is registered as `region`.
  HeaderArena(MutableBytes memory, Lease region, std::size_t first = 0) noexcept
      : memory_(memory), region_(region), first_(first) {}
  MutableBytes place(std::size_t slot) const noexcept {
    return memory_.subspan(static_cast<std::size_t>(offset(slot)), kPlaceSize);
  }
  // Returns the slice of `size` bytes that was written `at` bytes from the start of the place.
  work::Slice slice(std::size_t slot, std::uint32_t size, std::uint32_t at = 0) const noexcept {
    return {region_, size, offset(slot) + at};
  }

 private:
  // Returns where a place begins in the arena, bytes.
  std::uint64_t offset(std::size_t slot) const noexcept {
    return std::uint64_t{first_ + slot} * kPlaceSize;
  }

  MutableBytes memory_;
  Lease region_;
  std::size_t first_;
};

// Writes the header of a message without chunks: into `room`, which is Outgoing::header_room, so
// that `first`, the message's first run, begins with it; or into `place` when there is no such
// room. Returns its size in `place`, bytes; 0: it is in front of the run.
inline std::uint32_t put_short_header(const LinkParameters& link, Xid xid, std::uint32_t credits,
                                      Direction direction, Fragment& first, std::byte* room,
                                      MutableBytes place) noexcept {
  const std::uint32_t size = header_sizes(link.dialect).shortest;
  if (room == nullptr) {
    encode_short(link.dialect, xid, credits, direction, place);
    return size;
  }
  first.offset -= size;
  first.size += size;
  encode_short(link.dialect, xid, credits, direction, {room + kShortHeaderSizeMax - size, size});
  return 0;
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_SHARED_H_
