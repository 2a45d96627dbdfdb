// The buffers that Receives are posted into. Their size may change while the connection lives.
#ifndef RPCRDMA_TRANSPORT_RECEIVE_MEMORY_H_
#define RPCRDMA_TRANSPORT_RECEIVE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/assert.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::transport {

// Buffers are numbered, and come in epochs: those of one epoch lie in one registered arena and have
// one size. A number moves to the newest epoch when it is posted; an older arena goes when its last
// number has moved. Where the provider has the memory of Receives, an epoch is a size only.
class ReceiveMemory {
 public:
  static constexpr std::size_t kEpochsMax = 3;  // a peer may ask for other sizes again and again

  // `count` buffers. Each begins at a multiple of `alignment`, a power of two: what a peer aligned
  // in its Send is so in memory, and what is in front of it lies right before it, so that a message
  // without padding is one run too. `queue_pair` outlives the object's use.
  ReceiveMemory(rdma::QueuePair& queue_pair, std::size_t count, std::size_t alignment);

  // Sets the size of Receives that are posted from now on, bytes. False, and nothing changes: the
  // memory cannot be registered, or messages still use too many older arenas.
  bool set_size(std::uint32_t size);
  std::uint32_t size() const noexcept { return epochs_.back()->size; }

  // Returns the buffers to post. Precondition: set_size() has succeeded once.
  rdma::ReceiveBuffers buffers() const noexcept;
  // These numbers were posted into buffers().
  void posted(std::span<const std::uint16_t> numbers);
  // The message that came by a Receive, until its number is posted again. In line, since each
  // message pays for it.
  [[gnu::always_inline]] inline Bytes message(const rdma::Completion& completion) const;

 private:
  struct Free {
    std::align_val_t alignment;
    void operator()(std::byte* memory) const noexcept { ::operator delete[](memory, alignment); }
  };
  struct Epoch {
    std::unique_ptr<std::byte[], Free> memory;  // null where the provider has it
    work::RegionId region{};
    std::uint32_t size = 0;   // bytes of each buffer
    std::size_t stride = 0;   // bytes from one to the next
    std::size_t numbers = 0;  // that are posted, or hold a message, in this epoch
  };
  std::size_t stride_of(std::uint32_t size) const noexcept;

  rdma::QueuePair& queue_pair_;
  const std::size_t alignment_;
  std::vector<std::unique_ptr<Epoch>> epochs_;  // the last one is the newest
  std::vector<Epoch*> epoch_of_;                // by number; null: never posted
};

Bytes ReceiveMemory::message(const rdma::Completion& completion) const {
  const auto number = static_cast<std::size_t>(completion.id);
  RPCRDMA_ASSERT(number < epoch_of_.size() && epoch_of_[number] != nullptr &&
                     completion.size <= epoch_of_[number]->size,
                 "a completion for a Receive that was not posted");
  const Epoch& epoch = *epoch_of_[number];
  if (!epoch.memory) return {completion.message, completion.size};
  return {epoch.memory.get() + number * epoch.stride, completion.size};
}

}  // namespace rpcrdma::transport

#endif  // RPCRDMA_TRANSPORT_RECEIVE_MEMORY_H_
