// What Requester and Responder share: events on their way up, Receives to post, header memory.
#ifndef RPCRDMA_ENGINE_OUTBOX_H_
#define RPCRDMA_ENGINE_OUTBOX_H_

#include <cstdint>
#include <optional>

#include "base/ring.h"
#include "engine/types.h"
#include "wire/v1/header.h"

namespace rpcrdma::engine {

// A Receive buffer is either posted, or holds a message that somebody looks at, or waits in
// `to_post`. Each is in one place only.
struct Outbox {
  Outbox(std::size_t events_max, std::size_t receives) : events(events_max), to_post(receives) {}

  Ring<Event> events;
  Ring<ReceiveId> to_post;
  std::uint32_t receives_posted = 0;  // posted and not completed
  // Of those, what the peer's Calls may take: one for each credit granted that no Call holds.
  // Negative: the peer has taken those that are there for its replies.
  std::int64_t receives_for_calls = 0;
  bool disconnect = false;  // a Disconnect action is to be emitted
  GivenUp given_up = GivenUp::kNot;
  bool connected = false;
  Counters counters;

  void repost(ReceiveId receive) { to_post.push(receive); }
};

// Memory for Transport headers: one place per slot, all in one registered arena, so that a header
// is encoded where it is sent from.
class HeaderArena {
 public:
  static constexpr std::uint32_t kSizeMax = 4096;  // the largest header with every limit reached
  // Not a multiple of the page size: places at the same offset of their pages share a few sets of
  // the cache.
  static constexpr std::uint32_t kPlaceSize = kSizeMax + 192;

  explicit HeaderArena(MutableBytes memory) noexcept : memory_(memory) {}
  MutableBytes place(std::size_t slot) const noexcept {
    return memory_.subspan(slot * kPlaceSize, kPlaceSize);
  }
  static std::uint32_t offset(std::size_t slot) noexcept {
    return static_cast<std::uint32_t>(slot * kPlaceSize);
  }

 private:
  MutableBytes memory_;
};

// Room for a short header in front of a message's first run, which then begins with it.
inline MutableBytes header_in_front(Fragment& first, std::byte* room) noexcept {
  first.offset -= wire::v1::kHeaderSizeMin;
  first.size += wire::v1::kHeaderSizeMin;
  return {room, wire::v1::kHeaderSizeMin};
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_OUTBOX_H_
