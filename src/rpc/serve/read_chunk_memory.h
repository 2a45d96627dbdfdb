// Gives memory to the Read chunks of a session's Calls, and lets Calls wait while there is none.
#ifndef RPCRDMA_RPC_SERVE_READ_CHUNK_MEMORY_H_
#define RPCRDMA_RPC_SERVE_READ_CHUNK_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/types.h"
#include "rpc/serve/call_memory.h"
#include "rpc/serve/memory_queue.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

class Context;
class Session;

// Part of Session, which admits and answers the Calls. It moves nothing for a Call that would be
// refused anyway, and a Call that waits holds no memory.
class ReadChunkMemory {
 public:
  // All arguments outlive it; the queue is that of the pool.
  ReadChunkMemory(Session& session, transport::BufferPool& pool, MemoryQueue& queue)
      : session_(session), pool_(pool), queue_(queue), share_(queue) {}

  // The session's share of the pool.
  MemoryQueue::Member& share() noexcept { return share_; }

  void handle_wanted(const engine::MemoryWanted& wanted);
  // Takes the Call out of the queue, because it ends or, with `is_served`, because it has its
  // memory. Precondition: it is in there (Context::ticket_).
  void stop_waiting(Context& context, bool is_served = false);
  bool anybody_waits() const noexcept { return waiting_ > 0; }
  // Tries again for Calls that wait, as long as they are the first that do. Returns whether any
  // went on.
  bool retry();

 private:
  using Lack = CallMemory::Lack;

  void take_memory(Context& context, const engine::MemoryWanted& wanted);
  void handle_early(Context& context, const engine::MemoryWanted& wanted);
  bool is_to_be_judged_early() const noexcept;
  void lend_head(Context& context);
  bool judge_chunks(Context& context, const engine::MemoryWanted& wanted);
  std::optional<Lack> reserve(Context& context, std::span<const engine::ReadChunk> chunks);
  void reserve_rest(Context& context, const engine::MemoryWanted& wanted);
  void wait_for_memory(Context& context, const engine::MemoryWanted& wanted, std::size_t count,
                       Lack lack);
  void lend_next(Context& context);
  void refuse_for_memory(Context& context);

  Session& session_;
  transport::BufferPool& pool_;
  MemoryQueue& queue_;
  MemoryQueue::Member share_;
  std::uint32_t waiting_ = 0;  // contexts that wait for memory
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_READ_CHUNK_MEMORY_H_
