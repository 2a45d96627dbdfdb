#include "gss/host_turns.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gss/held_executor_for_test.h"

namespace rpcrdma::gss {
namespace {

class HostTurnsTest : public ::testing::Test {
 protected:
  // A step that ends at once.
  bool submit(HostTurns& turns, const std::string& host, const std::string& name) {
    names_.push_back(std::make_unique<std::string>(name));
    return turns.submit(host, [this, &turns, text = names_.back().get()] {
      notes_ += *text;
      turns.end();
    });
  }
  void run_all() {
    while (!executor_.works.empty()) executor_.run_first();
  }

  HeldExecutor executor_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::string notes_;
};

TEST_F(HostTurnsTest, HostsTakeTurnsHoweverManyStepsOneOfThemHas) {
  HostTurns turns(executor_, 1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(submit(turns, "a", "a"));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(submit(turns, "b", "b"));
  EXPECT_TRUE(submit(turns, "c", "c"));
  EXPECT_EQ(executor_.works.size(), 1U);
  run_all();
  EXPECT_EQ(notes_, "abcabaaa");
}

TEST_F(HostTurnsTest, ExecutorHasAtMostTheGivenNumberOfSteps) {
  HostTurns turns(executor_, 2);
  int begun = 0;
  for (const char* const host : {"a", "b", "c", "d"}) {
    EXPECT_TRUE(turns.submit(host, [&begun] { ++begun; }));
  }
  EXPECT_EQ(executor_.works.size(), 2U);
  run_all();
  EXPECT_EQ(begun, 2) << "two have begun and not ended";
  turns.end();
  run_all();
  EXPECT_EQ(begun, 3);
  turns.end();
  turns.end();
  run_all();
  EXPECT_EQ(begun, 4);
  turns.end();
  EXPECT_TRUE(submit(turns, "a", "a"));
  EXPECT_TRUE(submit(turns, "a", "a"));
  EXPECT_EQ(executor_.works.size(), 2U) << "there is room again";
  run_all();
  EXPECT_EQ(notes_, "aa");
}

TEST_F(HostTurnsTest, StepsThatAHostMayHaveWaitingAreBoundedAndThoseOfOthersAreNotAffected) {
  HostTurns turns(executor_, 1, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(submit(turns, "a", "a"));
  EXPECT_FALSE(submit(turns, "a", "x"));
  EXPECT_TRUE(submit(turns, "b", "b"));
  executor_.run_first();
  EXPECT_TRUE(submit(turns, "a", "a")) << "one has run";
  run_all();
  EXPECT_EQ(notes_, "abaaa");
}

// The end of the last call may be the end of the server.
TEST_F(HostTurnsTest, MayBeDestroyedBehindTheEndOfTheLastStep) {
  auto turns = std::make_unique<HostTurns>(executor_, 1);
  EXPECT_TRUE(turns->submit("a", [&turns] {
    turns->end();
    turns.reset();
  }));
  run_all();
  EXPECT_EQ(turns, nullptr);
}

}  // namespace
}  // namespace rpcrdma::gss
