// Keeps the memory of Calls in service over one connection: it is borrowed of the pool, or lent by
// the service.
#ifndef RPCRDMA_RPC_SERVE_CALL_MEMORY_H_
#define RPCRDMA_RPC_SERVE_CALL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "oncrpc/runs.h"
#include "rpc/connection_memory.h"
#include "rpc/kept_leases.h"
#include "rpc/serve/memory_queue.h"
#include "rpcrdma/message.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class CallMemory {
 public:
  using Stream = BoundedVector<engine::Fragment, engine::kFragmentsMax>;
  struct Loan {  // memory of the pool, registered on the connection while the call lasts
    MutableBytes buffer;
    engine::Lease lease;
  };
  // The memory that one Call holds.
  struct Held {
    BoundedVector<Loan, 24> loans;
    LentMemory lent;  // results in memory of the service's
  };

  // All arguments outlive it, except that the connection may go first.
  CallMemory(transport::Connection& connection, transport::BufferPool& pool, RegionTable& regions,
             MemoryQueue::Member& share)
      : connection_(connection),
        pool_(pool),
        share_(share),
        leases_(connection, pool),
        of_service_(regions, Registering::kWhenUsed) {
    of_service_.move_to(&connection);
  }

  // Says which resource was exhausted.
  enum class Lack : std::uint8_t {
    kMemory,  // of the pool: it comes back when other calls end
    kRoom,    // the call holds too many pieces, or the provider registers no more memory
  };
  // Borrows at least `size` bytes of the pool.
  Expected<MutableBytes, Lack> borrow(Held& held, std::size_t size);
  void return_loans(Held& held);
  // Gives everything back. Precondition: the engine is done with the call.
  void release(Held& held);
  // Does the same when the connection has gone, and its leases with it.
  void abandon(Held& held);

  // Names the runs of a reply that was written into `buffer`, at `place`. `is_wrapped`: none of
  // them is eligible for direct placement. Returns false if memory of the service's cannot be
  // registered.
  bool locate(Held& held, const transport::Connection::Room& room, const MessageWriter& results,
              Bytes buffer, oncrpc::StreamPlace place, bool is_wrapped, Stream& stream);
  // Adds runs of bytes, wherever they are; none of them is eligible for direct placement.
  bool locate(Held& held, const transport::Connection::Room& room,
              std::initializer_list<Bytes> runs, Stream& stream);

 private:
  void give_back(const Loan& loan);
  std::optional<engine::Fragment> locate(Held& held, const transport::Connection::Room& room,
                                         Bytes data, std::uint16_t item);

  transport::Connection& connection_;
  transport::BufferPool& pool_;
  MemoryQueue::Member& share_;
  KeptLeases leases_;
  ConnectionMemory of_service_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CALL_MEMORY_H_
