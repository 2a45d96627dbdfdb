// The buffer pool, for messages that are received over TCP.
#ifndef RPCRDMA_RPC_POOL_MEMORY_H_
#define RPCRDMA_RPC_POOL_MEMORY_H_

#include <cstddef>

#include "tcp/memory.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

class PoolMemory final : public tcp::Memory {
 public:
  explicit PoolMemory(transport::BufferPool& pool) noexcept : pool_(pool) {}
  MutableBytes take(std::size_t size) override { return pool_.take(size); }
  void give_back(MutableBytes buffer) override { pool_.give_back(buffer); }

 private:
  transport::BufferPool& pool_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_POOL_MEMORY_H_
