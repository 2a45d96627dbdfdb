// Gives memory of the pool to the records that clients send over TCP, and lets them wait while
// there is none.
#ifndef RPCRDMA_RPC_SERVE_RECORD_MEMORY_H_
#define RPCRDMA_RPC_SERVE_RECORD_MEMORY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/serve/host_memory.h"
#include "rpc/serve/memory_queue.h"
#include "tcp/connection.h"
#include "tcp/memory.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

// A record takes memory as its bytes come, and keeps it until all are here. So records that have
// begun could hold all memory while none of them has enough, and wait for each other until their
// connections end. Therefore records grow only in a part of the pool. The rest has room for the
// longest one, and completes them one at a time: that record gets all that it may still need at
// once. Its peer has the time of any record for it (TcpOptions, pull_timeout).
//
// Those that wait are in a line: the host that holds least is first (MemoryQueue). A host leaves
// memory to others besides (HostMemory), so that their records need not wait for its.
//
// Belongs to one thread, as the pool does.
class RecordMemory {
 public:
  class Share;

 private:
  using Queue = MemoryQueue<Share>;
  struct Host {
    explicit Host(Queue& queue) noexcept : member(queue) {}
    Queue::Member member;
    std::size_t shares = 0;
  };
  using Hosts = std::map<std::string, Host, std::less<>>;

 public:
  // The memory of one connection's records.
  class Share final : public tcp::Memory {
   public:
    // `of` outlives this, and so does `host_memory` (null: hosts have no bound).
    Share(RecordMemory& of, HostMemory* host_memory, std::string_view peer_address);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Gets news when it is first in the line and there may be memory for it. Outlives this.
    void set_listener(tcp::NewsListener& listener) noexcept { listener_ = &listener; }
    // The connection's part in what its host holds, of which records are one part.
    HostMemory::Share& of_host() noexcept { return of_host_; }

    MutableBytes take(std::size_t size, std::size_t whole) override;
    void give_back(MutableBytes buffer) override;
    // A record is complete, which begins here: its call gives the memory back.
    void handle_complete(const std::byte* record) noexcept;
    // The connection does not ask again for what it was refused.
    void stop_waiting() { leave(false); }

   private:
    friend RecordMemory;
    MutableBytes grow(std::size_t size);
    MutableBytes complete(std::size_t whole);
    void enter(std::size_t whole);
    void leave(bool is_served);

    RecordMemory& of_;
    HostMemory::Share of_host_;
    Hosts::iterator host_;
    // Its large buffers in which a record grows: while it gets a larger one, two.
    std::vector<MutableBytes> growing_;
    Queue::Ticket ticket_;
    tcp::NewsListener* listener_ = nullptr;
  };

  // `pool_size`: bytes that the pool may have; `record_size_max`: of record_limits() for it.
  RecordMemory(transport::BufferPool& pool, std::size_t pool_size,
               std::size_t record_size_max) noexcept;

  // Gives the first that waits a turn if there may be memory for it now.
  void retry() const;

 private:
  transport::BufferPool& pool_;
  struct Sizes {
    std::size_t small = 0, large = 0;  // bytes in buffers of these sizes (BufferPool::kSmallMax)

    std::size_t& of(std::size_t size) noexcept {
      return transport::BufferPool::large_size(size) == 0 ? small : large;
    }
  };
  Sizes growing_max_;                      // in which records may begin and grow
  Sizes growing_;                          // in which they do
  const std::byte* completing_ = nullptr;  // the buffer of the record that is being completed
  Queue queue_;
  Hosts hosts_;  // that have a connection
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_RECORD_MEMORY_H_
