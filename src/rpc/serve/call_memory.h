// Keeps the memory of Calls in service over one connection: it is borrowed of the pool, or lent by
// the service.
#ifndef RPCRDMA_RPC_SERVE_CALL_MEMORY_H_
#define RPCRDMA_RPC_SERVE_CALL_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "oncrpc/runs.h"
#include "rpc/connection_memory.h"
#include "rpc/serve/host_memory.h"
#include "rpc/serve/memory_queue.h"
#include "rpcrdma/message.h"
#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

// Buffers of the pool that stay registered with a connection, where registering costs much. A
// buffer that a call has given back may be another connection's next, and this connection's
// again: its registration, which gives no peer any right, is kept until the pool frees it. At
// most kMax are kept, so that many connections do not lock all memory many times over.
class KeptLeases final : private transport::BufferPool::Watcher {
 public:
  static constexpr std::size_t kMax = 64;

  // The pool outlives this; the connection lives as long as buffers are taken and given back.
  KeptLeases(transport::Connection& connection, transport::BufferPool& pool)
      : connection_(connection), pool_(pool), keeps_(connection.registering_is_costly()) {
    if (keeps_) pool_.add_watcher(*this);
  }
  ~KeptLeases() {
    if (keeps_) pool_.remove_watcher(*this);
  }
  KeptLeases(const KeptLeases&) = delete;
  KeptLeases& operator=(const KeptLeases&) = delete;

  Expected<engine::Lease, rdma::Error> take(MutableBytes buffer) {
    const auto found = find(buffer.data());
    if (found != kept_.end()) return found->lease;
    return connection_.attach(buffer);
  }
  void give_back(MutableBytes buffer, engine::Lease lease) {
    if (find(buffer.data()) != kept_.end()) return;
    if (keeps_ && kept_.size() < kMax) {
      kept_.push_back({buffer.data(), lease});
    } else {
      connection_.detach(lease);
    }
  }

 private:
  struct Kept {
    const std::byte* memory;
    engine::Lease lease;
  };
  std::vector<Kept>::iterator find(const std::byte* memory) {
    return std::ranges::find(kept_, memory, &Kept::memory);
  }
  void handle_freed(const std::byte* memory) override {
    const auto found = find(memory);
    if (found == kept_.end()) return;
    connection_.detach(found->lease);
    kept_.erase(found);
  }

  transport::Connection& connection_;
  transport::BufferPool& pool_;
  const bool keeps_;
  std::vector<Kept> kept_;
};

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
             MemoryQueue::Member& share, HostMemory::Share& of_host)
      : connection_(connection),
        pool_(pool),
        share_(share),
        of_host_(of_host),
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
  HostMemory::Share& of_host_;
  KeptLeases leases_;
  ConnectionMemory of_service_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CALL_MEMORY_H_
