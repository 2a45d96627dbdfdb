#include "transport/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace rpcrdma::transport {
namespace {

TEST(BufferPool, GivesAlignedBuffersOfAtLeastTheSize) {
  BufferPool pool(64U << 20U);
  for (const std::size_t size : {1U, 4096U, 4097U, 1U << 20U, 16U << 20U}) {
    const MutableBytes buffer = pool.take(size);
    ASSERT_GE(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
    pool.give_back(buffer);
  }
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(BufferPool, UsesBuffersAgain) {
  BufferPool pool(1U << 20U);
  const MutableBytes first = pool.take(5000);
  std::byte* const memory = first.data();
  pool.give_back(first);
  const MutableBytes second = pool.take(6000);
  EXPECT_EQ(second.data(), memory);
  pool.give_back(second);
  EXPECT_EQ(pool.bytes_held(), 8192U);
}

TEST(BufferPool, NeverHoldsMoreThanItsBound) {
  BufferPool pool(16384);
  const MutableBytes a = pool.take(8192);
  const MutableBytes b = pool.take(8192);
  EXPECT_TRUE(pool.take(1).empty());
  pool.give_back(a);
  EXPECT_FALSE(pool.take(8192).empty());
  pool.give_back(a);
  pool.give_back(b);
}

TEST(BufferPool, FreesKeptBuffersOfOtherSizesToMakeRoom) {
  BufferPool pool(16384);
  std::vector<MutableBytes> small;
  for (int i = 0; i < 4; ++i) small.push_back(pool.take(4096));
  for (const MutableBytes buffer : small) pool.give_back(buffer);
  const MutableBytes large = pool.take(8192);
  EXPECT_EQ(large.size(), 8192U);
  EXPECT_LE(pool.bytes_held(), 16384U);
  pool.give_back(large);
}

TEST(BufferPool, KeepsAnEighthForSmallBuffers) {
  BufferPool pool(1U << 20U);
  std::vector<MutableBytes> large;
  for (;;) {
    const MutableBytes buffer = pool.take(65536);
    if (buffer.empty()) break;
    large.push_back(buffer);
  }
  EXPECT_EQ(large.size(), 14U);
  const MutableBytes small = pool.take(4096);
  EXPECT_FALSE(small.empty());
  pool.give_back(small);
  for (const MutableBytes buffer : large) pool.give_back(buffer);
}

TEST(BufferPool, SmallBuffersUseTheirEighthFirst) {
  BufferPool pool(1U << 20U);
  std::vector<MutableBytes> taken;
  for (int i = 0; i < 32; ++i) taken.push_back(pool.take(4096));
  for (int i = 0; i < 14; ++i) {
    taken.push_back(pool.take(65536));
    EXPECT_FALSE(taken.back().empty());
  }
  EXPECT_TRUE(pool.take(1).empty());
  for (const MutableBytes buffer : taken) pool.give_back(buffer);
  const MutableBytes large = pool.take(512U << 10U);
  EXPECT_FALSE(large.empty()) << "in place of those that came back";
  pool.give_back(large);
}

TEST(BufferPool, KeepsSmallBuffersWhereTheyMakeNoRoom) {
  BufferPool pool(1U << 20U);
  std::vector<MutableBytes> small, large;
  for (int i = 0; i < 32; ++i) small.push_back(pool.take(4096));
  for (const MutableBytes buffer : small) pool.give_back(buffer);
  for (int i = 0; i < 14; ++i) large.push_back(pool.take(65536));
  EXPECT_TRUE(pool.take(65536).empty());
  EXPECT_EQ(pool.bytes_held(), 1U << 20U);
  for (const MutableBytes buffer : large) pool.give_back(buffer);
}

TEST(BufferPool, CountsOnlyWhatIsNotSmallAgainstTheShareOfLargeBuffers) {
  EXPECT_EQ(BufferPool::large_size(BufferPool::kSmallMax), 0U);
  EXPECT_EQ(BufferPool::large_size(BufferPool::kSmallMax + 1), 2 * BufferPool::kSmallMax);
}

TEST(BufferPool, TellsWhatItGivesBackToTheSystem) {
  struct Watcher final : BufferPool::Watcher {
    void handle_freed(const std::byte* memory) override { freed.push_back(memory); }
    std::vector<const std::byte*> freed;
  };
  BufferPool pool(1U << 20U);
  Watcher watcher;
  pool.add_watcher(watcher);
  const MutableBytes small = pool.take(16384);
  const MutableBytes other = pool.take(16384);
  pool.give_back(small);
  pool.give_back(other);
  EXPECT_TRUE(watcher.freed.empty()) << "kept buffers are not freed";
  const MutableBytes large = pool.take(512U << 10U);
  pool.give_back(pool.take(256U << 10U));
  EXPECT_TRUE(watcher.freed.empty());
  const MutableBytes more = pool.take(128U << 10U);  // fits only without what is kept
  const MutableBytes most = pool.take(128U << 10U);
  EXPECT_FALSE(more.empty() || most.empty());
  EXPECT_FALSE(watcher.freed.empty());
  pool.remove_watcher(watcher);
  for (const MutableBytes buffer : {large, more, most}) pool.give_back(buffer);
}

TEST(BufferPool, RefusesWhatIsLargerThanItsLargestBuffer) {
  BufferPool pool(std::size_t{1} << 40U);
  EXPECT_TRUE(pool.take(BufferPool::kSizeMax + 1).empty());
  EXPECT_TRUE(pool.take(~std::size_t{0}).empty());
}

}  // namespace
}  // namespace rpcrdma::transport
