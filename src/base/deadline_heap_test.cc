#include "base/deadline_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/random.h"

namespace rpcrdma {
namespace {

struct Owner : DeadlineHeap<Owner>::Entry {
  int name = 0;
};
Instant at(std::int64_t ns) {
  return Instant{std::chrono::nanoseconds{ns}};
}

TEST(DeadlineHeap, TakesWhatIsDueInTheOrderOfTime) {
  DeadlineHeap<Owner> heap;
  std::array<Owner, 3> owners;
  heap.set(owners[0], at(30));
  heap.set(owners[1], at(10));
  heap.set(owners[2], at(20));
  EXPECT_EQ(heap.first(), at(10));
  EXPECT_EQ(heap.take_due(at(9)), nullptr);
  EXPECT_EQ(heap.take_due(at(20)), &owners[1]);
  EXPECT_EQ(heap.take_due(at(20)), &owners[2]);
  EXPECT_EQ(heap.take_due(at(20)), nullptr);
  EXPECT_EQ(owners[1].deadline(), std::nullopt) << "it was taken";
  EXPECT_EQ(heap.first(), at(30));
}

TEST(DeadlineHeap, HoldsOneDeadlineOfEach) {
  DeadlineHeap<Owner> heap;
  Owner owner;
  heap.set(owner, at(30));
  heap.set(owner, at(10));
  EXPECT_EQ(owner.deadline(), at(10));
  heap.set(owner, at(50));
  EXPECT_EQ(heap.first(), at(50));
  heap.set(owner, std::nullopt);
  EXPECT_EQ(heap.first(), std::nullopt);
  heap.set(owner, std::nullopt);
}

// Against a list that is searched.
TEST(DeadlineHeap, IsRightAfterAnyChanges) {
  SeededRandom random(1);
  DeadlineHeap<Owner> heap;
  std::array<Owner, 50> owners;
  std::map<Owner*, Instant> expected;
  for (int step = 0; step < 20'000; ++step) {
    Owner& owner = owners[random.below(owners.size())];
    const Instant when = at(static_cast<std::int64_t>(random.below(1000)));
    switch (random.below(4)) {
      case 0:
        heap.set(owner, std::nullopt);
        expected.erase(&owner);
        break;
      case 1:
        if (Owner* due = heap.take_due(when); due != nullptr) {
          ASSERT_TRUE(expected.contains(due));
          ASSERT_LE(expected[due], when);
          expected.erase(due);
        } else {
          ASSERT_TRUE(std::ranges::none_of(
              expected, [when](const auto& each) { return each.second <= when; }));
        }
        break;
      default:
        heap.set(owner, when);
        expected[&owner] = when;
    }
    const auto first =
        std::ranges::min_element(expected, {}, [](const auto& each) { return each.second; });
    ASSERT_EQ(heap.first(), first == expected.end() ? std::nullopt : std::optional(first->second));
  }
}

}  // namespace
}  // namespace rpcrdma
