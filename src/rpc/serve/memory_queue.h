// Calls that wait for memory of the pool, of all sessions that share it.
#ifndef RPCRDMA_RPC_SERVE_MEMORY_QUEUE_H_
#define RPCRDMA_RPC_SERVE_MEMORY_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace rpcrdma::rpc {

class Context;

// In the order of their arrival: while the first does not fit, none behind it is tried, so that
// small calls cannot keep a large one waiting for ever.
class MemoryQueue {
 public:
  using Ticket = std::uint64_t;  // of one that waits; 0: it does not

  Ticket enter(Context& context) {
    waiting_.emplace_hint(waiting_.end(), ++last_, &context);
    return last_;
  }
  void leave(Ticket ticket) { waiting_.erase(ticket); }
  bool empty() const noexcept { return waiting_.empty(); }
  // Null: nobody waits.
  Context* first() const noexcept { return waiting_.empty() ? nullptr : waiting_.begin()->second; }

  // The first was tried with so many bytes of the pool in use, and there was not enough.
  void note_tried(std::size_t bytes_in_use) noexcept { tried_at_ = bytes_in_use; }
  // Whether there is more now than there was then.
  bool is_worth_trying(std::size_t bytes_in_use) const noexcept {
    return !waiting_.empty() && bytes_in_use < tried_at_;
  }

 private:
  std::map<Ticket, Context*> waiting_;
  Ticket last_ = 0;
  std::size_t tried_at_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_MEMORY_QUEUE_H_
