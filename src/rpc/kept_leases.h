// Buffers of the pool that stay registered with a connection, where registering costs much.
#ifndef RPCRDMA_RPC_KEPT_LEASES_H_
#define RPCRDMA_RPC_KEPT_LEASES_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "transport/buffer_pool.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

// A buffer that a call has given back may be another connection's next, and this connection's
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

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_KEPT_LEASES_H_
