#include "gss/step_turns.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "gss/executor.h"
#include "gss/locked_step.h"

namespace rpcrdma::gss {
namespace {

// Runs what it has when the test says so.
class Held final : public Executor {
 public:
  void submit(Work work) override { works.push_back(std::move(work)); }
  void run_first() {
    Work work = std::move(works.front());
    works.erase(works.begin());
    work();
  }
  std::vector<Work> works;
};

struct Ended final : AuthStep {
  void finish() override { is_ended = true; }
  bool is_ended = false;
};

TEST(StepTurns, GiveTheExecutorOneStepAtATimeInTheirOrder) {
  Held executor;
  DirectQueue queue(executor);
  StepTurns turns;
  std::string notes;
  for (const char name : {'a', 'b', 'c'}) {
    turns.submit(
        queue, [&notes, name] { notes += name; }, [&notes] { notes += '.'; });
  }
  EXPECT_EQ(executor.works.size(), 1U);
  executor.run_first();
  EXPECT_EQ(notes, "a.");
  EXPECT_EQ(executor.works.size(), 1U);
  while (!executor.works.empty()) executor.run_first();
  EXPECT_EQ(notes, "a.b.c.");
  turns.submit(
      queue, [&notes] { notes += 'd'; }, [] {});
  EXPECT_EQ(executor.works.size(), 1U);
}

// The end of a call may be the end of its context.
TEST(StepTurns, MayBeDestroyedByTheEndOfTheLastStep) {
  Held executor;
  DirectQueue queue(executor);
  auto turns = std::make_unique<StepTurns>();
  turns->submit(
      queue, [] {}, [&turns] { turns.reset(); });
  executor.run_first();
  EXPECT_EQ(turns, nullptr);
}

struct ContextForTest {
  std::mutex mutex;
  StepTurns turns;
};

TEST(LockedStep, ContextHasOneStepWithTheExecutorHoweverManyBytesItsCallsHave) {
  Held executor;
  DirectQueue queue(executor);
  ContextForTest one, other;
  std::vector<Ended> ends(5);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(run_locked(queue, one, kBytesAtOnce + 1, ends[i], [] {}), StepEnd::kPending);
  }
  EXPECT_EQ(run_locked(queue, other, kBytesAtOnce + 1, ends[4], [] {}), StepEnd::kPending);
  EXPECT_EQ(executor.works.size(), 2U) << "nobody else's step waits behind four of one context";
  executor.run_first();
  EXPECT_TRUE(ends[0].is_ended);
  executor.run_first();
  EXPECT_TRUE(ends[4].is_ended);
  while (!executor.works.empty()) executor.run_first();
  for (const Ended& each : ends) EXPECT_TRUE(each.is_ended);
}

TEST(LockedStep, FewBytesAreForTheThreadOfTheConnectionUnlessTheContextIsInUse) {
  Held executor;
  DirectQueue queue(executor);
  ContextForTest context;
  Ended end;
  bool has_run = false;
  EXPECT_EQ(run_locked(queue, context, kBytesAtOnce, end, [&] { has_run = true; }), StepEnd::kDone);
  EXPECT_TRUE(has_run);
  EXPECT_FALSE(end.is_ended);
}

// The system has no more of them.
class NoThreads final : public Workers {
 public:
  NoThreads() : Workers(2) {}

 private:
  std::thread start() override {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
};

TEST(GssWorkers, RunWorkOnTheThreadThatHasItWhereTheSystemGivesNone) {
  NoThreads workers;
  int runs = 0;
  workers.submit([&runs] { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(GssWorkers, RunWorkOnThreadsOfTheirOwn) {
  std::thread::id where;
  {
    Workers workers(2);
    workers.submit([&where] { where = std::this_thread::get_id(); });
  }
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_NE(where, std::thread::id());
}

// The threads are its parent's alone, and so is the work that these had not done.
TEST(GssWorkers, ChildOfForkHasThreadsOfItsOwnAndWaitsForNoneOfItsParents) {
  // One thread, which has begun when this process is forked: sanitizers hold locks while a thread
  // starts, and no fork() releases them in the child.
  auto workers = std::make_unique<Workers>(1);
  std::promise<void> has_begun, may_end;
  workers->submit([&] {
    has_begun.set_value();
    may_end.get_future().wait();
  });
  has_begun.get_future().wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    std::promise<std::thread::id> where;
    workers->submit([&where] { where.set_value(std::this_thread::get_id()); });
    const bool is_elsewhere = where.get_future().get() != std::this_thread::get_id();
    workers.reset();
    ::_exit(is_elsewhere ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const pid_t second = ::fork();
  if (second == 0) {
    ::alarm(30);
    workers.reset();  // without any work of its own
    ::_exit(0);
  }
  EXPECT_EQ(::waitpid(second, &status, 0), second);
  EXPECT_EQ(status, 0);
  may_end.set_value();
}

}  // namespace
}  // namespace rpcrdma::gss
