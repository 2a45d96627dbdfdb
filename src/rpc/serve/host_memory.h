// Bounds the memory that the results of one host's calls, and its records over TCP, hold.
#ifndef RPCRDMA_RPC_SERVE_HOST_MEMORY_H_
#define RPCRDMA_RPC_SERVE_HOST_MEMORY_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "rpc/serve/duplicate_calls.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

// A call may take memory for its results before the peer has taken any, and keeps it until then. So
// a host has seven eighths at most of the large buffers of the pool that others leave to it: one
// that asks for all, and takes little, leaves something to the next. Records over TCP, which keep
// what they have while they wait, grow within this, too (RecordMemory); Read chunks are in turns
// anyway (MemoryQueue). Belongs to one thread, as the pool does.
class HostMemory {
  struct Host {
    std::size_t shares = 0;
    std::size_t held = 0;  // bytes of large buffers
  };
  using Hosts = std::map<std::string, Host, std::less<>>;

 public:
  // The part of a connection in what its host holds.
  class Share {
   public:
    // `of`: null, without a bound; else it outlives this.
    Share(HostMemory* of, std::string_view peer_address) : of_(of) {
      if (of_ == nullptr) return;
      host_ = of_->hosts_.try_emplace(host_of(peer_address)).first;
      ++host_->second.shares;
    }
    ~Share() {
      if (of_ != nullptr && --host_->second.shares == 0) of_->hosts_.erase(host_);
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Returns whether a further buffer of at least `size` bytes leaves enough to others. A host
    // that holds none has its first one.
    bool may_take(std::size_t size) const noexcept {
      if (of_ == nullptr || large_size(size) == 0) return true;
      const std::size_t own = host_->second.held;
      const std::size_t others = of_->held_ - own;
      const std::size_t left = of_->bytes_max_ > others ? of_->bytes_max_ - others : 0;
      return own == 0 || own + large_size(size) <= left - left / 8;
    }
    // A buffer of the pool was taken, or given back.
    void took(std::size_t buffer_size) noexcept {
      if (of_ == nullptr) return;
      host_->second.held += large_size(buffer_size);
      of_->held_ += large_size(buffer_size);
    }
    void gave_back(std::size_t buffer_size) noexcept {
      if (of_ == nullptr) return;
      host_->second.held -= large_size(buffer_size);
      of_->held_ -= large_size(buffer_size);
    }

   private:
    static std::size_t large_size(std::size_t size) noexcept {
      return transport::BufferPool::large_size(size);
    }
    HostMemory* const of_;
    Hosts::iterator host_{};
  };

  // `pool_size`: bytes that the pool may have.
  explicit HostMemory(std::size_t pool_size) noexcept
      : bytes_max_(transport::BufferPool::large_bytes_max(pool_size)) {}

 private:
  const std::size_t bytes_max_;
  Hosts hosts_;  // that have a connection
  std::size_t held_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_HOST_MEMORY_H_
