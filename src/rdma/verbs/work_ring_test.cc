#include "rdma/verbs/work_ring.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rpcrdma::rdma::verbs {
namespace {

struct Work {
  int id = 0;
  bool own_completion = false;
  bool done = false;
};

class Works : public testing::Test {
 protected:
  void post(int id, bool own_completion = false) { ring.push({id, own_completion}); }
  // Returns the work that the completion of `number` ends; the named one with an exclamation mark.
  std::string complete(std::uint64_t number) {
    std::string over;
    EXPECT_TRUE(ring.complete(number, [&](Work& work, bool is_named) {
      over += std::to_string(work.id) + (is_named ? "! " : " ");
    }));
    return over;
  }
  WorkRing<Work> ring{8};
};

TEST_F(Works, ACompletionTellsOfAllBeforeIt) {
  for (int id = 1; id <= 4; ++id) post(id);
  EXPECT_EQ(complete(2), "1 2 3! ");
  EXPECT_EQ(ring.size(), 1U);
}

TEST_F(Works, DoNotEndByAnotherCompletionIfTheyHaveTheirOwn) {
  post(1);
  post(2, true);
  post(3);
  EXPECT_EQ(complete(2), "1 3! ");
  EXPECT_EQ(ring.size(), 2U) << "2 is still there, and 3 behind it";
  EXPECT_EQ(complete(1), "2! ");
  EXPECT_TRUE(ring.empty());
}

TEST_F(Works, NumbersCountUpOverAllRounds) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    EXPECT_EQ(ring.next(), round);
    post(static_cast<int>(round));
    EXPECT_EQ(complete(round), std::to_string(round) + "! ");
  }
}

TEST_F(Works, CompletionsOfWhatIsNotThereAreIgnored) {
  const auto nothing = [](Work&, bool) { ADD_FAILURE() << "something ended"; };
  EXPECT_FALSE(ring.complete(0, nothing));
  post(1);
  EXPECT_FALSE(ring.complete(1, nothing));
  EXPECT_EQ(complete(0), "1! ");
  EXPECT_FALSE(ring.complete(0, nothing)) << "a second time";
}

TEST_F(Works, ASecondCompletionOfWorkThatWaitsForAnOlderOneIsIgnored) {
  post(1, true);
  post(2);
  EXPECT_EQ(complete(1), "2! ");
  EXPECT_FALSE(ring.complete(1, [](Work&, bool) { ADD_FAILURE() << "something ended"; }));
}

TEST_F(Works, FlushEndsWhatIsNotDoneOldestFirst) {
  post(1, true);
  post(2);
  post(3);
  EXPECT_EQ(complete(1), "2! ");
  std::vector<int> flushed;
  ring.flush([&](Work& work) { flushed.push_back(work.id); });
  EXPECT_EQ(flushed, (std::vector{1, 3}));
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace rpcrdma::rdma::verbs
