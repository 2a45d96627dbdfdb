#include "gss/step_turns.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "gss/executor.h"
#include "gss/held_executor_for_test.h"
#include "gss/locked_step.h"

namespace rpcrdma::gss {
namespace {

struct Ended final : AuthStep {
  void finish() override { is_ended = true; }
  bool is_ended = false;
};

TEST(StepTurns, GiveTheExecutorOneStepAtATimeInTheirOrder) {
  HeldExecutor executor;
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
  HeldExecutor executor;
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
  HeldExecutor executor;
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
  HeldExecutor executor;
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

// Forks while the one thread of the parent runs a step. The step has begun before: AddressSanitizer
// holds locks while a thread starts, and a child that is made then finds them locked for ever.
class GssWorkersFork : public ::testing::Test {
 protected:
  GssWorkersFork() {
    workers_->submit([this] {
      has_begun_.set_value();
      may_end_.get_future().wait();
    });
    has_begun_.get_future().wait();
  }
  ~GssWorkersFork() override { may_end_.set_value(); }
  // Returns the status, as of waitpid(), of a child that ends by the result of `act`. The child has
  // half a minute.
  static int child_that(const std::function<int()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      ::_exit(act());
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  // The step uses these until its thread is joined, which the destructor of workers_ does.
  std::promise<void> has_begun_, may_end_;
  std::unique_ptr<Workers> workers_ = std::make_unique<Workers>(1);
};

TEST_F(GssWorkersFork, ChildRunsItsWorkOnThreadsOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads if its parent has several";
#endif
  const auto runs_work_elsewhere = [&] {
    std::promise<std::thread::id> where;
    workers_->submit([&where] { where.set_value(std::this_thread::get_id()); });
    const bool is_elsewhere = where.get_future().get() != std::this_thread::get_id();
    workers_.reset();
    return is_elsewhere ? 0 : 1;
  };
  EXPECT_EQ(child_that(runs_work_elsewhere), 0);
}

TEST_F(GssWorkersFork, ChildWithoutWorkWaitsForNoThreadOfItsParent) {
  const auto destroys_its_copy = [&] {
    workers_.reset();
    return 0;
  };
  EXPECT_EQ(child_that(destroys_its_copy), 0);
}

}  // namespace
}  // namespace rpcrdma::gss
