#include "nfs/back_end/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace nfs {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kBound{20};

template <class Function>
class Running final : public Job {
 public:
  explicit Running(Function function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  Function function_;
};

template <class Function>
void submit(Workers& workers, Function function) {
  EXPECT_EQ(workers.submit(std::make_unique<Running<Function>>(std::move(function))), nullptr);
}

Workers::Settings threads(std::size_t count) {
  Workers::Settings settings;
  settings.threads = count;
  settings.queue_max = 1000;
  return settings;
}

bool comes_to(const std::atomic<int>& count, int wanted) {
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (count < wanted) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Workers, TickThoughThereIsNothingToDo) {
  std::atomic<int> ticks = 0;
  Workers workers(threads(3));
  workers.every(milliseconds(1), [&ticks] { ++ticks; });
  EXPECT_TRUE(comes_to(ticks, 5));
}

TEST(Workers, TickThoughThereIsAlwaysSomethingToDo) {
  std::atomic<int> ticks = 0;
  std::atomic<bool> is_over = false;
  Workers workers(threads(1));
  struct Again final : Job {
    Again(Workers& pool, std::atomic<bool>& over) : workers(pool), is_over(over) {}
    void run() override {
      if (!is_over) (void)workers.submit(std::make_unique<Again>(workers, is_over));
    }
    Workers& workers;
    std::atomic<bool>& is_over;
  };
  (void)workers.submit(std::make_unique<Again>(workers, is_over));
  (void)workers.submit(std::make_unique<Again>(workers, is_over));
  workers.every(milliseconds(1), [&ticks] { ++ticks; });
  EXPECT_TRUE(comes_to(ticks, 3));
  is_over = true;
}

TEST(Workers, DoWhatATickSubmits) {
  std::atomic<int> done = 0;
  Workers workers(threads(2));
  const auto count = [&done] { ++done; };
  workers.every(milliseconds(1),
                [&] { (void)workers.submit(std::make_unique<Running<decltype(count)>>(count)); });
  EXPECT_TRUE(comes_to(done, 5));
  EXPECT_TRUE(workers.stop(std::chrono::steady_clock::now() + kBound));
}

// Each job waits for the others, so that none is begun late because a thread keeps the time.
TEST(Workers, TakeAsManyJobsAtATimeAsThereAreThreads) {
  constexpr int kThreads = 4;
  Workers workers(threads(kThreads));
  workers.every(std::chrono::hours(1), [] {});
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> begun = 0, ended = 0;
    for (int i = 0; i < kThreads; ++i) {
      submit(workers, [&] {
        ++begun;
        EXPECT_TRUE(comes_to(begun, kThreads));
        ++ended;
      });
    }
    ASSERT_TRUE(comes_to(ended, kThreads));
  }
}

TEST(Workers, EndWhileOneKeepsTheTime) {
  Workers workers(threads(2));
  workers.every(std::chrono::hours(1), [] {});
  EXPECT_TRUE(workers.stop(std::chrono::steady_clock::now() + kBound));
}

}  // namespace
}  // namespace nfs
