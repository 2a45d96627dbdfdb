// The RDMA Reads that a connection may have in progress at a time (ORD).
#ifndef RPCRDMA_ENGINE_READ_SLOTS_H_
#define RPCRDMA_ENGINE_READ_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/ring.h"

namespace rpcrdma::engine {

// Shared by both halves of a connection. A call that finds no slot free waits in turn; resume()
// notifies its half when one is free.
class ReadSlots {
 public:
  class Reader {
   public:
    // The call in this slot of the reader's may go on.
    virtual void resume(std::uint16_t slot) = 0;

   protected:
    ~Reader() = default;
  };

  // `waiters_max`: calls of both halves that may have to wait.
  explicit ReadSlots(std::size_t waiters_max) : waiters_(waiters_max) {}

  // Takes the limit from the connection set-up or a later agreement; at least one, since a Call may
  // have come before the peer announced that it serves none.
  void set_max(std::uint32_t reads) noexcept { max_ = std::max(reads, 1U); }

  std::uint32_t max() const noexcept { return max_; }
  bool free() const noexcept { return in_flight_ < max_; }
  // Precondition: free().
  void take() noexcept {
    RPCRDMA_ASSERT(free(), "more RDMA Reads than the connection allows");
    ++in_flight_;
  }
  // A Read is complete. The first that waits goes on.
  void give_back() {
    --in_flight_;
    if (!waiters_.empty()) resume_first();
  }

  void wait(Reader& reader, std::uint16_t slot) { waiters_.push({&reader, slot}); }
  // Ends the waiting of a call. If its half was notified and has not taken the slot, the next call
  // gets the turn.
  void stop_waiting(const Reader& reader, std::uint16_t slot) {
    waiters_.remove_if(
        [&](const Waiter& waiter) { return waiter.reader == &reader && waiter.slot == slot; });
    if (!waiters_.empty() && free()) resume_first();
  }

 private:
  struct Waiter {
    Reader* reader;
    std::uint16_t slot;
  };
  void resume_first() {
    const Waiter waiter = waiters_.pop();
    waiter.reader->resume(waiter.slot);
  }

  Ring<Waiter> waiters_;
  std::uint32_t max_ = 1;
  std::uint32_t in_flight_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_READ_SLOTS_H_
