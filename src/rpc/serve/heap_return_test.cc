#include "rpc/serve/heap_return.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

namespace rpcrdma::rpc {
namespace {

TEST(HeapReturn, AsksEachTimeThatHalfOfTheConnectionsHaveGone) {
  HeapReturn heap;
  std::vector<std::size_t> asked_at;
  for (std::size_t left = 10'000; left-- > 0;) {
    if (heap.connection_ended(left)) asked_at.push_back(left);
  }
  EXPECT_EQ(asked_at, (std::vector<std::size_t>{5000, 2500, 1250, 625, 312, 56}));
}

TEST(HeapReturn, LeavesAFewConnectionsAlone) {
  HeapReturn heap;
  for (std::size_t i = 1; i < HeapReturn::kEndedMin; ++i) EXPECT_FALSE(heap.connection_ended(0));
  EXPECT_TRUE(heap.connection_ended(0));
}

// Sanitizers have an allocator of their own; Clang tells of them by its features alone.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RPCRDMA_OTHER_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RPCRDMA_OTHER_HEAP 1
#endif
#endif
#if defined(__GLIBC__) && !defined(RPCRDMA_OTHER_HEAP)
std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(HeapReturn, GivesBackWhatIsFreeBelowTheEndOfTheHeap) {
  constexpr std::size_t kBlock = 4096, kBlocks = 16'384;  // bytes; 64 MiB
  std::vector<std::unique_ptr<std::byte[]>> blocks;       // NOLINT(modernize-avoid-c-arrays)
  blocks.reserve(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) blocks.push_back(std::make_unique<std::byte[]>(kBlock));
  const auto last = std::make_unique<std::byte[]>(kBlock);
  const std::size_t before = resident_kib();
  blocks.clear();
  HeapReturn heap;
  while (!heap.connection_ended(0)) {
  }
  EXPECT_LT(resident_kib() + 48 * 1024, before);
}
#endif

}  // namespace
}  // namespace rpcrdma::rpc
