#include "gss/sequence_window.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"

namespace rpcrdma::gss {
namespace {

TEST(SequenceWindow, TakesEachNumberOnce) {
  SequenceWindow window(64);
  for (const std::uint32_t number : {0U, 1U, 5U, 3U, 2U, 4U}) {
    EXPECT_TRUE(window.take(number)) << number;
    EXPECT_FALSE(window.take(number)) << number;
  }
}

TEST(SequenceWindow, EndsAtTheHighestNumber) {
  SequenceWindow window(128);
  EXPECT_TRUE(window.take(1000));
  EXPECT_TRUE(window.take(1000 - 127));
  EXPECT_FALSE(window.take(1000 - 128));
  EXPECT_TRUE(window.take(1001));
  EXPECT_FALSE(window.take(1000 - 127)) << "it is out of the window now";
  EXPECT_TRUE(window.take(1000 - 126));
}

TEST(SequenceWindow, ForgetsAllByALeap) {
  SequenceWindow window(64);
  for (std::uint32_t number = 0; number < 64; ++number) EXPECT_TRUE(window.take(number));
  EXPECT_TRUE(window.take(63 + 64));
  EXPECT_FALSE(window.take(63));
  for (std::uint32_t number = 64; number < 127; ++number)
    EXPECT_TRUE(window.take(number)) << number;
  EXPECT_FALSE(window.take(127));
}

TEST(SequenceWindow, HoldsUpToTheLastNumber) {
  SequenceWindow window(64);
  EXPECT_TRUE(window.take(0xffffffff));
  EXPECT_FALSE(window.take(0xffffffff));
  EXPECT_TRUE(window.take(0xffffffff - 63));
  EXPECT_FALSE(window.take(0xffffffff - 64));
  EXPECT_FALSE(window.take(0));
}

// Next to the rule, in so many words.
TEST(SequenceWindow, DoesAsTheDocumentSays) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom random(seed);
    const std::uint32_t size = 64U << random.below(4);
    SequenceWindow window(size);
    std::set<std::int64_t> seen;
    std::int64_t around = 1;
    for (int i = 0; i < 2000; ++i) {
      around += random.one_in(8) ? static_cast<std::int64_t>(random.below(3 * size)) : 1;
      const std::int64_t back = static_cast<std::int64_t>(random.below(2 * size));
      const std::int64_t number = around > back ? around - back : 0;
      const bool is_new =
          !seen.contains(number) && (seen.empty() || number > *seen.rbegin() - size);
      EXPECT_EQ(window.take(static_cast<std::uint32_t>(number)), is_new)
          << "seed " << seed << ", number " << number;
      if (is_new) seen.insert(number);
    }
  }
}

}  // namespace
}  // namespace rpcrdma::gss
