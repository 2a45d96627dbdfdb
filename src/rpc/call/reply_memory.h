// The memory of replies that a client receives over TCP.
#ifndef RPCRDMA_RPC_CALL_REPLY_MEMORY_H_
#define RPCRDMA_RPC_CALL_REPLY_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/assert.h"
#include "tcp/memory.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

// The client's pool, and the heap for one reply when calls have taken the whole pool: they give
// their memory back with their replies, and would wait for these until they time out. A reply that
// the program keeps, or another that is read, has its memory back in time, and gets no help.
class ReplyMemory final : public tcp::Memory {
 public:
  explicit ReplyMemory(transport::BufferPool& pool) noexcept : pool_(pool) {}
  ~ReplyMemory() { RPCRDMA_ASSERT(lent_ == 0, "the memory of replies goes before they do"); }
  ReplyMemory(const ReplyMemory&) = delete;
  ReplyMemory& operator=(const ReplyMemory&) = delete;

  MutableBytes take(std::size_t size, std::size_t /*whole*/) override {
    MutableBytes buffer = pool_.take(size);
    if (buffer.empty() && lent_ <= 1) {  // one: that which grows
      buffer = {new std::byte[size], size};
      from_heap_.push_back(buffer.data());
    }
    if (!buffer.empty()) ++lent_;
    return buffer;
  }
  void give_back(MutableBytes buffer) override {
    --lent_;
    if (std::erase(from_heap_, buffer.data()) > 0) {
      delete[] buffer.data();
    } else {
      pool_.give_back(buffer);
    }
  }

 private:
  transport::BufferPool& pool_;
  std::size_t lent_ = 0;               // buffers
  std::vector<std::byte*> from_heap_;  // at most two
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_REPLY_MEMORY_H_
