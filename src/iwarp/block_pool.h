// Memory that a stream needs only while bytes are under way. Internal to the module.
#ifndef RPCRDMA_IWARP_BLOCK_POOL_H_
#define RPCRDMA_IWARP_BLOCK_POOL_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace rpcrdma::iwarp {

// Blocks of one size, which the streams of one thread share: a stream that rests has none, and the
// block that is used next is in the cache. Outlives the streams.
class BlockPool {
 public:
  static constexpr std::size_t kSize = 64 * 1024;  // of a block, bytes

  BlockPool() { kept_.reserve(kKeptMax); }

  std::unique_ptr<std::byte[]> take() {
    if (kept_.empty()) return std::make_unique_for_overwrite<std::byte[]>(kSize);
    std::unique_ptr<std::byte[]> block = std::move(kept_.back());
    kept_.pop_back();
    return block;
  }
  void give_back(std::unique_ptr<std::byte[]> block) noexcept {
    if (kept_.size() < kKeptMax) kept_.push_back(std::move(block));
  }

 private:
  static constexpr std::size_t kKeptMax = 16;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
};

// A block of the pool, while there is something in it.
class Block {
 public:
  explicit Block(BlockPool& pool) noexcept : pool_(pool) {}
  ~Block() { release(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void hold() {
    if (memory_ == nullptr) memory_ = pool_.take();
  }
  void release() noexcept {
    if (memory_ != nullptr) pool_.give_back(std::move(memory_));
  }
  // Null when none is held.
  std::byte* data() const noexcept { return memory_.get(); }
  std::byte& operator[](std::size_t index) const noexcept { return memory_.get()[index]; }

 private:
  BlockPool& pool_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_BLOCK_POOL_H_
