// The Calls of a responder whose Read chunks are being pulled, or wait for that.
#ifndef RPCRDMA_ENGINE_PULLS_H_
#define RPCRDMA_ENGINE_PULLS_H_

#include <cstdint>

#include "base/deadline.h"
#include "engine/answered_call.h"
#include "engine/pull_window.h"
#include "engine/shared.h"
#include "engine/slot_table.h"

namespace rpcrdma::engine {

// Asks the layer above for memory (MemoryWanted), for one Read chunk of a Call after the other, and
// only when its turn has come.
class Pulls {
 public:
  // Both outlive it.
  Pulls(const Options& options, Shared& shared, SlotTable<AnsweredCall>& slots)
      : shared_(shared), slots_(slots), window_(options, slots.size()) {}

  // A Call that came with chunks. False: none of them is to be pulled.
  bool begin(AnsweredCall& call);
  // Takes memory for the first `size` bytes of a Long Call, and asks for more when they are here.
  void lend_head(AnsweredCall& call, Lease memory, std::uint64_t offset, std::uint32_t size,
                 Instant now);
  // The memory of the chunk that was asked for last; its Reads can go out.
  void lend(AnsweredCall& call, Lease memory, std::uint64_t offset, Instant now);
  // Does what Responder::put_off() says.
  void put_off(AnsweredCall& call);
  void read_done(AnsweredCall& call) noexcept { window_.read_done(call.chunked->claim); }
  // No Read of the Call is under way. True: all of it is here; else more is to be emitted, or
  // memory was asked for.
  bool chunk_done(AnsweredCall& call, Instant now);
  // Nothing of the Call is pulled any more.
  void end(AnsweredCall& call) noexcept { window_.release(call.chunked->claim); }
  // Gives other calls their turn; called after read_done() and end().
  void go_on() {
    if (window_.anybody_waits()) begin_waiting();
  }

  // Returns the time for the next is_late(), if one is needed.
  Deadline deadline() const noexcept { return window_.deadline(); }
  // Returns whether the peer takes too long with the chunks of a Call.
  bool is_late(Instant now) noexcept;
  // The connection has ended: those that wait for their turn are the responder's to end.
  void handle_disconnected() noexcept;

 private:
  void wait_turn(AnsweredCall& call);
  void begin_waiting();
  // False: all chunks are here.
  bool ask(AnsweredCall& call, bool is_early = false);
  bool may_begin() const noexcept {
    return !shared_.disconnect && !window_.anybody_waits() && window_.has_room(shared_.reads.max());
  }

  Shared& shared_;
  SlotTable<AnsweredCall>& slots_;
  PullWindow window_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_PULLS_H_
