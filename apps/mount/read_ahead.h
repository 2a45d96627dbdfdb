// Decides what one open file reads from the server before programs ask for it.
//
// A file that is read from its beginning, or from where the last read ended, is read in blocks, the
// more of them ahead the longer that goes on. Other reads are made as they come. Blocks that no
// program asked for, or that a change has overtaken, are dropped and counted.
//
// It makes no calls itself: its owner asks which block to read next, and gives it the bytes.
#ifndef RPCRDMA_MOUNT_READ_AHEAD_H_
#define RPCRDMA_MOUNT_READ_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "mount/attribute_cache.h"
#include "mount/buffer_pool.h"

namespace mounts {

class ReadAhead {
 public:
  struct Block {
    enum class State : std::uint8_t { kUnderWay, kReady, kFailed };
    std::uint64_t offset = 0;
    State state = State::kUnderWay;
    Buffer buffer;
    std::size_t count = 0;  // bytes that were read
    std::size_t used = 0;   // bytes that programs have got
    int error = 0;
    Time begun{};
  };

  // Blocks of `block_size` bytes, at most `blocks_max` of them.
  ReadAhead(std::uint64_t block_size, std::uint32_t blocks_max) noexcept
      : block_size_(block_size), blocks_max_(blocks_max) {}

  // A program reads. Returns whether blocks serve it; if not, it reads what it asks for alone.
  // `stamp` names the file's content: another one voids all blocks. None is read behind
  // `file_size`, where the file ends as far as is known.
  bool note_read(std::uint64_t offset, std::size_t size, std::uint64_t stamp, Time now,
                 std::uint64_t file_size = UINT64_MAX);
  // Returns the offset of the next block to read; nullopt: none at the time.
  std::optional<std::uint64_t> next() const noexcept;
  // Begins to read it into the buffer. The block stays where it is until end() was called.
  Block& begin(std::uint64_t offset, Buffer buffer, Time now);
  // Ends that: with the bytes, or with an error. A block that was voided meanwhile goes.
  void end(Block& block, std::size_t count, int error);

  // Returns the block that has the byte at an offset; null: there is none.
  Block* find(std::uint64_t offset) noexcept;
  // These bytes were given to a program; blocks that are used up go. Reads overtake each other, so
  // that the last bytes of a block may be read first.
  void note_used(std::uint64_t begin, std::uint64_t end);
  // The error of the block was given to a program: the next read asks the server again.
  void drop_failed(Block& block);
  void drop_all();

  std::uint64_t block_size() const noexcept { return block_size_; }
  std::size_t blocks() const noexcept { return blocks_.size() + voided_.size(); }
  bool is_idle() const noexcept;                               // no block is being read
  std::uint64_t in_vain() const noexcept { return in_vain_; }  // bytes

 private:
  static constexpr Clock::duration kAgeMax = std::chrono::seconds(3);

  std::uint64_t near() const noexcept { return block_size_ * (1 + blocks_max_ / 2); }
  void void_block(std::map<std::uint64_t, Block>::iterator at);

  const std::uint64_t block_size_;
  const std::uint32_t blocks_max_;
  std::map<std::uint64_t, Block> blocks_;       // by offset
  std::multimap<std::uint64_t, Block> voided_;  // still being read
  std::uint64_t expected_ = 0;                  // where a sequential read goes on
  std::uint64_t position_ = 0;                  // of the first block that may be read
  std::uint64_t file_size_ = UINT64_MAX;
  std::optional<std::uint64_t> end_of_file_;
  std::uint32_t window_ = 0;  // blocks
  std::uint64_t stamp_ = 0;
  std::uint64_t in_vain_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_READ_AHEAD_H_
