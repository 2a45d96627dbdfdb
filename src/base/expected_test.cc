#include "rpcrdma/expected.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rpcrdma {
namespace {

struct Animal {
  virtual ~Animal() = default;
};
struct Dog final : Animal {};

// Counts how many of it there are.
struct Counted {
  explicit Counted(int& there) : there_(&there) { ++*there_; }
  Counted(Counted&& other) noexcept : there_(other.there_) { ++*there_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*there_; }

 private:
  int* there_;
};

Expected<std::unique_ptr<int>, std::string> number(bool is_there) {
  if (!is_there) return Unexpected<std::string>("it is not there");
  return std::make_unique<int>(3);
}

Expected<void, int> done(bool well) {
  if (!well) return Unexpected<int>(4);
  return {};
}

TEST(Expected, HoldsAValueOrAnError) {
  const auto found = number(true);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found.has_value());
  EXPECT_EQ(**found, 3);
  EXPECT_EQ(*found.value(), 3);
  const auto missed = number(false);
  ASSERT_FALSE(missed);
  EXPECT_EQ(missed.error(), "it is not there");
}

TEST(Expected, HoldsNothingOrAnErrorForVoid) {
  EXPECT_TRUE(done(true));
  EXPECT_NO_THROW(done(true).value());
  ASSERT_FALSE(done(false));
  EXPECT_EQ(done(false).error(), 4);
  static_assert(std::is_void_v<decltype(done(true).value())>);
}

TEST(Expected, ThrowsTheErrorWhenAValueIsTakenThatIsNotThere) {
  try {
    number(false).value();
    FAIL() << "nothing was thrown";
  } catch (const BadExpectedAccess<std::string>& thrown) {
    EXPECT_EQ(thrown.error(), "it is not there");
  }
  EXPECT_THROW(done(false).value(), BadExpectedAccess<int>);
}

TEST(Expected, GivesAnotherValueInPlaceOfAnError) {
  EXPECT_EQ((Expected<int, int>(7).value_or(1)), 7);
  EXPECT_EQ((Expected<int, int>(Unexpected(2)).value_or(1)), 1);
}

TEST(Expected, TakesWhatConvertsToItsValue) {
  Expected<std::unique_ptr<Dog>, std::string> dog(std::make_unique<Dog>());
  const Expected<std::unique_ptr<Animal>, std::string> animal(std::move(dog));
  EXPECT_TRUE(animal);
  Expected<std::unique_ptr<Dog>, const char*> none(Unexpected<const char*>("no dog"));
  const Expected<std::unique_ptr<Animal>, std::string> nobody(std::move(none));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error(), "no dog");
}

TEST(Expected, IsAssignedAcrossItsTwoStates) {
  auto it = number(true);
  it = number(false);
  ASSERT_FALSE(it);
  it = number(true);
  ASSERT_TRUE(it);
  EXPECT_EQ(**it, 3);
  Expected<std::string, int> text(Unexpected(1));
  text.emplace(std::string(100, 'x'));
  EXPECT_EQ(text->size(), 100U);
  const Expected<std::string, int> copy = text;
  text = Unexpected(2);
  EXPECT_EQ(copy->size(), 100U);
  EXPECT_EQ(text.error(), 2);
}

TEST(Expected, EndsWhatItHoldsOnce) {
  int there = 0;
  {
    Expected<Counted, std::string> it(std::in_place, there);
    EXPECT_EQ(there, 1);
    std::vector<Expected<Counted, std::string>> many;
    many.push_back(std::move(it));
    many.emplace_back(Unexpected<std::string>("none"));
    EXPECT_EQ(there, 2);
    many[0] = Unexpected<std::string>("gone");
    EXPECT_EQ(there, 1);
  }
  EXPECT_EQ(there, 0);
}

TEST(Expected, ComparesWithItsLikeWithValuesAndWithErrors) {
  const Expected<int, int> three(3), error(Unexpected(3));
  EXPECT_TRUE(three == three);
  EXPECT_FALSE(three == error);
  EXPECT_TRUE(three == 3);
  EXPECT_FALSE(error == 3);
  EXPECT_TRUE(error == Unexpected(3));
  EXPECT_TRUE(done(true) == done(true));
  EXPECT_FALSE(done(true) == done(false));
}

#ifndef RPCRDMA_STD_EXPECTED
// Clang 14 would pass such values in another way than GCC otherwise.
TEST(Expected, IsTriviallyCopyableWhereItsPartsAre) {
  static_assert(std::is_trivially_copyable_v<Expected<int, int>>);
  static_assert(std::is_trivially_copyable_v<Expected<void, int>>);
  static_assert(!std::is_trivially_copyable_v<Expected<std::string, int>>);
  static_assert(!std::is_copy_constructible_v<Expected<std::unique_ptr<int>, std::string>>);
  static_assert(std::is_nothrow_move_constructible_v<Expected<std::string, std::string>>);
}
#endif

#ifdef _GLIBCXX_ASSERTIONS
TEST(ExpectedDeathTest, EndsTheProgramThatReadsWhatIsNotThere) {
  const auto missed = number(false);
  EXPECT_DEATH(static_cast<void>(**missed), "");
  const auto found = number(true);
  EXPECT_DEATH(static_cast<void>(found.error().size()), "");
}
#endif

}  // namespace
}  // namespace rpcrdma
