#include "iwarp/tag_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::iwarp {
namespace {

using Verdict = TagTable::Verdict;

TEST(TagTable, GivesExactlyTheBytesThatWereExposed) {
  SeededRandom random(1);
  TagTable table(4, random);
  test::Buffer memory(100);
  const Exposure* made = table.add_target(memory, Right::kWrite);
  ASSERT_NE(made, nullptr);
  const auto [tag, base] = std::pair(made->tag, made->base);
  Exposure* found = nullptr;
  EXPECT_EQ(table.check(tag, Right::kWrite, base, 100, &found), Verdict::kOk);
  EXPECT_EQ(found->target, memory.data());
  EXPECT_EQ(table.check(tag, Right::kWrite, base + 99, 1, &found), Verdict::kOk);
  EXPECT_EQ(table.check(tag, Right::kWrite, base + 99, 2, &found), Verdict::kBounds);
  EXPECT_EQ(table.check(tag, Right::kWrite, base + 100, 1, &found), Verdict::kBounds);
  EXPECT_EQ(table.check(tag, Right::kWrite, base - 1, 1, &found), Verdict::kBounds);
  EXPECT_EQ(table.check(tag, Right::kWrite, base, 101, &found), Verdict::kBounds);
  constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(table.check(tag, Right::kWrite, kEnd, 2, &found), Verdict::kWrap);
  EXPECT_EQ(table.check(tag, Right::kWrite, base, kEnd, &found), Verdict::kWrap);
  EXPECT_EQ(table.check(tag, Right::kRead, base, 1, &found), Verdict::kAccess);
  EXPECT_EQ(table.check(tag, Right::kSink, base, 1, &found), Verdict::kAccess);
  EXPECT_TRUE(table.remove(tag));
  EXPECT_FALSE(table.remove(tag));
  EXPECT_EQ(table.check(tag, Right::kWrite, base, 1, &found), Verdict::kInvalidTag);
}

TEST(TagTable, EachUseOfASlotHasAnotherTagAndAddress) {
  SeededRandom random(2);
  TagTable table(1, random);
  test::Buffer memory(8);
  std::set<std::uint32_t> tags;
  std::set<std::uint64_t> bases;
  for (int i = 0; i < 1000; ++i) {
    const Exposure* made = table.add_source(memory);
    ASSERT_NE(made, nullptr);
    tags.insert(static_cast<std::uint32_t>(made->tag));
    bases.insert(made->base);
    EXPECT_LT(made->base, std::uint64_t{1} << 48U);
    EXPECT_GT(static_cast<std::uint32_t>(made->tag), 1U);
    table.remove(made->tag);
  }
  EXPECT_GT(tags.size(), 990U);
  EXPECT_GT(bases.size(), 990U);
}

TEST(TagTable, GrowsToItsSlotsAndFindsEachTag) {
  SeededRandom random(3);
  constexpr std::uint32_t kSlots = 100;
  TagTable table(kSlots, random);
  test::Buffer memory(kSlots);
  std::vector<SteeringTag> tags;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    EXPECT_EQ(table.free(), kSlots - i);
    const Exposure* made = table.add_source(Bytes(memory).subspan(i, 1));
    ASSERT_NE(made, nullptr);
    tags.push_back(made->tag);
  }
  EXPECT_EQ(table.add_source(memory), nullptr);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const Exposure* found = table.find(tags[i]);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->source, memory.data() + i);
  }
}

// They tell the receiving side that large messages may come.
TEST(TagTable, CountsLargeTargetsWhileTheyLive) {
  SeededRandom random(2);
  TagTable table(4, random);
  test::Buffer large(TagTable::kLargeTarget), small(TagTable::kLargeTarget - 1);
  table.add_source(large);
  table.add_target(small, Right::kWrite);
  EXPECT_EQ(table.large_targets(), 0U);
  const SteeringTag tag = table.add_target(large, Right::kSink)->tag;
  EXPECT_EQ(table.large_targets(), 1U);
  table.remove(tag);
  EXPECT_EQ(table.large_targets(), 0U);
}

TEST(TagTable, ManyTagsLiveSideBySideUntilTheTableIsFull) {
  SeededRandom random(3);
  constexpr std::uint32_t kSlots = 100;  // not a power of two
  TagTable table(kSlots, random);
  std::vector<test::Buffer> memory(kSlots, test::Buffer(16));
  std::vector<SteeringTag> tags;
  for (auto& part : memory) tags.push_back(table.add_target(part, Right::kWrite)->tag);
  EXPECT_EQ(table.add_source(memory[0]), nullptr);
  EXPECT_EQ(table.free(), 0U);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    ASSERT_NE(table.find(tags[i]), nullptr);
    EXPECT_EQ(table.find(tags[i])->target, memory[i].data());
  }
  table.clear();
  EXPECT_EQ(table.live(), 0U);
  for (const SteeringTag tag : tags) EXPECT_EQ(table.find(tag), nullptr);
}

TEST(TagTable, GuessesFindNothing) {
  SeededRandom random(4);
  TagTable table(1024, random);
  test::Buffer memory(16);
  std::set<std::uint32_t> tags;
  for (int i = 0; i < 1024; ++i)
    tags.insert(static_cast<std::uint32_t>(table.add_source(memory)->tag));
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto guess = static_cast<std::uint32_t>(random.next());
    if (table.find(SteeringTag{guess}) != nullptr) {
      ++hits;
      EXPECT_TRUE(tags.contains(guess));
    }
  }
  EXPECT_LT(hits, 3);  // 1024 of 2^32
}

}  // namespace
}  // namespace rpcrdma::iwarp
