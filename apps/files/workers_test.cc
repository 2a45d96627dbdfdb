#include "files/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace files {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kBound{20};

template <class Function>
class Running final : public Job {
 public:
  explicit Running(Function function) : function_(std::move(function)) {}
  void run() override { function_(); }
  void turn_away() override { ADD_FAILURE() << "it was turned away"; }

 private:
  Function function_;
};

template <class Function>
void submit(Workers& workers, Function function) {
  workers.submit(std::make_unique<Running<Function>>(std::move(function)));
}

// Writes down how it ended.
struct Noted final : Job {
  Noted(std::string& all, char own) : notes(all), name(own) {}
  void run() override { notes += name; }
  void turn_away() override { (notes += '-') += name; }
  std::string& notes;
  const char name;
};

Workers::Settings threads(std::size_t count) {
  Workers::Settings settings;
  settings.threads = settings.threads_of_host = count;
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
      if (!is_over) workers.submit(std::make_unique<Again>(workers, is_over));
    }
    void turn_away() override {}
    Workers& workers;
    std::atomic<bool>& is_over;
  };
  workers.submit(std::make_unique<Again>(workers, is_over));
  workers.submit(std::make_unique<Again>(workers, is_over));
  workers.every(milliseconds(1), [&ticks] { ++ticks; });
  EXPECT_TRUE(comes_to(ticks, 3));
  is_over = true;
}

TEST(Workers, DoWhatATickSubmits) {
  std::atomic<int> done = 0;
  Workers workers(threads(2));
  const auto count = [&done] { ++done; };
  workers.every(milliseconds(1), [&] { submit(workers, count); });
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

// Read by the threads of the pool.
std::atomic<std::chrono::steady_clock::time_point> virtual_now;

void pass(std::chrono::milliseconds time) {
  virtual_now = virtual_now.load() + time;
}

// Seconds pass, and the pool is looked at in each.
void pass_with_looks(Workers& workers, int count) {
  for (int i = 0; i < count; ++i) {
    pass(std::chrono::seconds(1));
    workers.turn_late_away();
  }
}

Workers::Settings in_virtual_time(std::size_t queue_max, std::size_t threads_max) {
  Workers::Settings settings = threads(1);
  settings.threads = threads_max;
  settings.queue_max = queue_max;
  settings.now = []() noexcept { return virtual_now.load(); };
  return settings;
}

// A pool of one thread that runs a job which never ends by itself, as on a disk that hangs; the
// time is the test's.
class HangingPool : public ::testing::Test {
 protected:
  explicit HangingPool(std::size_t queue_max = 1000, std::size_t threads = 1)
      : workers_(in_virtual_time(queue_max, threads)) {
    virtual_now = std::chrono::steady_clock::time_point{};
    submit(workers_, [this] {
      begun_ = 1;
      while (!is_over_) std::this_thread::yield();
    });
    EXPECT_TRUE(comes_to(begun_, 1));
  }
  ~HangingPool() override { end(); }
  void add(char name, std::uint64_t host = 1) {
    workers_.submit(std::make_unique<Noted>(notes_, name), host);
  }
  void pass_with_looks(int count) { files::pass_with_looks(workers_, count); }
  // The job ends after all. Returns how the others ended, a letter each, behind "-" if they were
  // turned away.
  std::string end() {
    is_over_ = true;
    EXPECT_TRUE(workers_.stop(std::chrono::steady_clock::now() + kBound));
    return notes_;
  }

  std::string notes_;
  std::atomic<int> begun_ = 0;
  std::atomic<bool> is_over_ = false;
  Workers workers_;
};

TEST_F(HangingPool, TurnsAwayWhatHasWaitedForLongerThanItsPatience) {
  add('a');
  pass(std::chrono::seconds(5));
  add('b');
  pass(std::chrono::seconds(5));
  workers_.turn_late_away();
  EXPECT_EQ(notes_, "");
  pass(milliseconds(1));
  workers_.turn_late_away();
  EXPECT_EQ(notes_, "-a");
  EXPECT_EQ(end(), "-ab");
}

TEST_F(HangingPool, TakesNothingAnyMore) {
  pass(std::chrono::seconds(10));
  add('a');
  pass(milliseconds(1));
  add('b');
  EXPECT_EQ(notes_, "-b") << "its only thread has been busy for longer than ten seconds";
  EXPECT_EQ(end(), "-ba");
}

// A stopped process does not look at its pools, so that the first look behind the stop is overdue.
TEST_F(HangingPool, CountsNoTimeInWhichItsProcessWasStopped) {
  workers_.turn_late_away();
  add('a');
  pass(std::chrono::seconds(11));
  add('b');
  workers_.turn_late_away();
  EXPECT_EQ(notes_, "") << "two seconds of them count at most";
  pass_with_looks(8);
  EXPECT_EQ(notes_, "");
  pass_with_looks(1);
  EXPECT_EQ(notes_, "-a");
  EXPECT_EQ(end(), "-ab");
}

// The thread that looks may itself wait, for example for the log.
TEST_F(HangingPool, TakesNothingAnyMoreThoughNobodyLooksWhileJobsCome) {
  workers_.turn_late_away();
  for (const char name : {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k'}) {
    pass(std::chrono::seconds(1));
    add(name);
  }
  EXPECT_EQ(notes_, "-k");
  EXPECT_EQ(end(), "-kabcdefghij");
}

// Two jobs run one behind the other on the only thread, each until the test lets it end.
class SlowPool : public ::testing::Test {
 protected:
  explicit SlowPool(std::uint64_t second_host = kSlow) : workers_(settings()) {
    virtual_now = std::chrono::steady_clock::time_point{};
    for (const int i : {0, 1}) {
      auto job = [this, i] {
        ++begun_;
        while (ended_ <= i) std::this_thread::yield();
      };
      workers_.submit(std::make_unique<Running<decltype(job)>>(job), i == 0 ? kSlow : second_host);
    }
    EXPECT_TRUE(comes_to(begun_, 1));
  }
  ~SlowPool() override { end(); }
  static Workers::Settings settings() {
    Workers::Settings settings = in_virtual_time(1000, 1);
    settings.waits_for_slow = true;
    return settings;
  }
  void add(char name, std::uint64_t host) {
    workers_.submit(std::make_unique<Noted>(notes_, name), host);
  }
  void end_first() {
    ended_ = 1;
    EXPECT_TRUE(comes_to(begun_, 2));
  }
  std::string end() {
    ended_ = 2;
    EXPECT_TRUE(workers_.stop(std::chrono::steady_clock::now() + kBound));
    return notes_;
  }

  static constexpr std::uint64_t kSlow = 1, kOther = 7;
  std::string notes_;
  std::atomic<int> begun_ = 0, ended_ = 0;
  Workers workers_;
};

TEST_F(SlowPool, TurnsAwayWhatIsLateOnlyWhileNothingGoesOn) {
  add('a', kSlow);
  pass(std::chrono::seconds(6));
  end_first();
  pass(std::chrono::seconds(6));
  workers_.turn_late_away();
  add('b', kSlow);
  EXPECT_EQ(notes_, "") << "a job of the host began six seconds ago";
  pass_with_looks(workers_, 5);
  EXPECT_EQ(notes_, "-a");
  add('c', kSlow);
  EXPECT_EQ(notes_, "-a-c");
  EXPECT_EQ(end(), "-a-cb");
}

TEST_F(SlowPool, TurnsNothingAwayBehindAStopOfItsProcess) {
  workers_.turn_late_away();
  add('a', kSlow);
  pass(std::chrono::seconds(11));
  workers_.turn_late_away();
  add('b', kSlow);
  EXPECT_EQ(notes_, "");
  EXPECT_EQ(end(), "ab");
}

class SlowPoolOfTwoHosts : public SlowPool {
 protected:
  SlowPoolOfTwoHosts() : SlowPool(2) {}
};

TEST_F(SlowPoolOfTwoHosts, LetsAThirdWaitWhileTheyGoOn) {
  add('a', kOther);
  pass(std::chrono::seconds(6));
  end_first();
  pass(std::chrono::seconds(6));
  workers_.turn_late_away();
  add('b', kOther);
  EXPECT_EQ(notes_, "");
  EXPECT_EQ(end(), "ab");
}

// A host has one of its two threads.
class SharedPool : public HangingPool {
 protected:
  static constexpr std::uint64_t kHanging = 0, kOther = 7;
  SharedPool() : HangingPool(1000, 2) {}
};

TEST_F(SharedPool, TakesNoMoreOfAHostWhoseJobsHang) {
  pass(std::chrono::seconds(10));
  add('a', kHanging);
  pass(milliseconds(1));
  add('b', kHanging);
  EXPECT_EQ(notes_, "-b");
  EXPECT_EQ(end(), "-ba");
}

TEST_F(SharedPool, TakesNoMoreOfAHostWhoseJobsHangWhateverOthersDo) {
  std::atomic<int> done = 0;
  for (int i = 1; i <= 11; ++i) {
    pass(std::chrono::seconds(1));
    workers_.submit(std::make_unique<Running<std::function<void()>>>([&done] { ++done; }), kOther);
    EXPECT_TRUE(comes_to(done, i));
  }
  add('a', kHanging);
  EXPECT_EQ(notes_, "-a");
}

TEST(JobQueue, HostWaitsSinceTheLastStepOfItsOwnJobs) {
  using std::chrono::seconds;
  const JobQueue::Clock::time_point start{};
  std::string notes;
  JobQueue queue(1);
  const auto add = [&](std::uint64_t host, seconds when) {
    queue.add(std::make_unique<Noted>(notes, 'x'), host, start + when);
  };
  EXPECT_FALSE(queue.waits_since(1));
  add(1, seconds(100));
  EXPECT_EQ(queue.waits_since(1), start + seconds(100))
      << "it came just now, however long none had";
  (void)queue.take(start + seconds(101));
  add(1, seconds(105));
  EXPECT_EQ(queue.waits_since(1), start + seconds(101));
  add(2, seconds(106));
  (void)queue.take(start + seconds(107));
  EXPECT_EQ(queue.waits_since(1), start + seconds(101)) << "a step of another host is none";
  queue.end(1, start + seconds(110));
  EXPECT_EQ(queue.waits_since(1), start + seconds(110));
  (void)queue.take(start + seconds(111));
  queue.end(1, start + seconds(112));
  EXPECT_FALSE(queue.waits_since(1));
}

TEST_F(HangingPool, ServesTheHostsInTurns) {
  for (const char name : {'a', 'b', 'c'}) add(name, 1);
  add('x', 2);
  add('y', 3);
  EXPECT_EQ(end(), "axybc");
}

TEST(Workers, LeaveAThreadToOthersHoweverLongTheJobsOfAHostTake) {
  Workers::Settings settings = threads(2);
  settings.threads_of_host = 1;
  std::atomic<int> begun = 0, done = 0;
  std::atomic<bool> is_over = false;
  Workers workers(settings);
  for (int i = 0; i < 3; ++i) {
    submit(workers, [&] {
      ++begun;
      while (!is_over) std::this_thread::yield();
    });
  }
  EXPECT_TRUE(comes_to(begun, 1));
  workers.submit(std::make_unique<Running<std::function<void()>>>([&done] { ++done; }), 1);
  EXPECT_TRUE(comes_to(done, 1));
  EXPECT_EQ(begun, 1);
  is_over = true;
  EXPECT_TRUE(comes_to(begun, 3));
}

class FullPool : public HangingPool {
 protected:
  FullPool() : HangingPool(4) {}
};

TEST_F(FullPool, MakesRoomForAHostThatHasLess) {
  for (const char name : {'a', 'b', 'c', 'd'}) add(name, 1);
  add('x', 2);
  EXPECT_EQ(notes_, "-d");
  add('y', 2);
  EXPECT_EQ(notes_, "-d-c");
  add('z', 2);
  EXPECT_EQ(notes_, "-d-c-z") << "both have as much";
  add('e', 1);
  EXPECT_EQ(end(), "-d-c-z-eaxby");
}

TEST_F(FullPool, TurnsAwayWhatFindsNoRoom) {
  for (const char name : {'a', 'b', 'c', 'd', 'e'}) add(name, 1);
  EXPECT_EQ(end(), "-eabcd");
}

TEST(Workers, StartAThreadWhenAJobFindsTheOthersBusyAndNoMoreThanThat) {
  const auto count_threads = [] {
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
      count += each.path().empty() ? 0U : 1U;
    }
    return count;
  };
  const std::size_t before = count_threads();
  Workers workers(threads(4));
  EXPECT_EQ(count_threads(), before);
  std::atomic<int> ended = 0;
  for (int i = 1; i <= 100; ++i) {
    submit(workers, [&ended] { ++ended; });
    ASSERT_TRUE(comes_to(ended, i));
  }
  // A thread that has just ended its job may still be busy when the next one comes.
  EXPECT_GT(count_threads(), before);
  EXPECT_LE(count_threads(), before + 4);
}

}  // namespace
}  // namespace files
