#include "wire/chunk_lists.h"

#include <gtest/gtest.h>

#include <vector>

namespace rpcrdma::wire {
namespace {

Segment segment(std::uint32_t n) {
  return {SteeringTag{n}, n * 100, n * 1000};
}

std::vector<Segment> segments(std::uint32_t first, std::size_t count) {
  std::vector<Segment> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(segment(first + static_cast<std::uint32_t>(i)));
  }
  return out;
}

TEST(WriteList, GivesBackEachChunkAlsoEmptyOnes) {
  WriteList list;
  ASSERT_TRUE(list.push_back(segments(1, 2)));
  ASSERT_TRUE(list.push_back({}));
  ASSERT_TRUE(list.push_back(segments(9, 3)));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list.chunk(0).size(), 2U);
  EXPECT_TRUE(list.chunk(1).empty());
  EXPECT_EQ(list.chunk(2)[2], segment(11));
}

TEST(WriteList, HoldsItsFullCapacityAndRefusesOneMore) {
  WriteList list;
  EXPECT_FALSE(list.push_back(segments(0, kSegmentsPerChunkMax + 1)));
  EXPECT_TRUE(list.empty());
  for (std::size_t i = 0; i < kWriteChunksMax; ++i) {
    ASSERT_TRUE(list.push_back(segments(0, kSegmentsPerChunkMax)));
  }
  EXPECT_FALSE(list.push_back({}));
  EXPECT_EQ(list.size(), kWriteChunksMax);
  list.clear();
  EXPECT_TRUE(list.push_back(segments(0, 1)));
}

TEST(WriteList, SameSegmentsInOtherChunksAreNotEqual) {
  WriteList joined;
  WriteList split;
  ASSERT_TRUE(joined.push_back(segments(1, 2)));
  ASSERT_TRUE(split.push_back(segments(1, 1)));
  ASSERT_TRUE(split.push_back(segments(2, 1)));
  EXPECT_FALSE(joined == split);
  EXPECT_EQ(split, split);
}

TEST(WriteListDeathTest, ChunkBeyondTheListIsOurBug) {
  WriteList list;
  EXPECT_DEATH((void)list.chunk(0), "no such Write chunk");
}

TEST(ChunkLists, PresentReplyChunkWithoutSegmentsIsNotAnAbsentOne) {
  ChunkLists absent;
  ChunkLists present;
  present.has_reply = true;
  EXPECT_TRUE(absent.empty());
  EXPECT_FALSE(present.empty());
  EXPECT_FALSE(absent == present);
  present.clear();
  EXPECT_EQ(absent, present);
}

}  // namespace
}  // namespace rpcrdma::wire
