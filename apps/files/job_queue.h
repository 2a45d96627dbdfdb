// The jobs of a pool of threads, in turns of the hosts that they come from.
#ifndef RPCRDMA_FILES_JOB_QUEUE_H_
#define RPCRDMA_FILES_JOB_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace files {

// One piece of work. One of its two functions is called, once, on any thread; then it is destroyed.
class Job {
 public:
  virtual ~Job() = default;
  virtual void run() = 0;
  // Takes the place of run() where the pool has no room for the job, or hangs.
  virtual void turn_away() = 0;
};

// A host that asks for much, or for what takes long, waits for itself: so many of its jobs run at a
// time, the others are behind those of their own host, and the hosts take turns. Not for several
// threads at once.
class JobQueue {
 public:
  using Clock = std::chrono::steady_clock;
  struct Taken {
    std::unique_ptr<Job> job;
    std::uint64_t host;
  };

  // At most `running_max` jobs of a host run at a time.
  explicit JobQueue(std::size_t running_max) noexcept : running_max_(running_max) {}

  // Returns how many jobs wait.
  std::size_t size() const noexcept { return size_; }
  // Returns how many of them may run, if there are threads.
  std::size_t ready() const noexcept { return ready_; }
  // Returns since when a further job of the host would wait for one of its own to end, and none
  // has; nullopt: it would not.
  std::optional<Clock::time_point> waits_since(std::uint64_t host) const noexcept;
  // Returns since when the host has had all the jobs running that it may have, and none has begun
  // or ended; nullopt: it may have more.
  std::optional<Clock::time_point> runs_since(std::uint64_t host) const noexcept;
  // `host` names where the job comes from; `now` is never before that of an earlier call.
  void add(std::unique_ptr<Job> job, std::uint64_t host, Clock::time_point now);
  // Returns the first job of the host whose turn it is; end() follows. Precondition: ready() > 0.
  Taken take(Clock::time_point now);
  // A job of the host that was taken has ended.
  void end(std::uint64_t host, Clock::time_point now);
  // Makes room for a job of `host`: returns the latest one of the host that has most; null if no
  // host has two more than `host`.
  std::unique_ptr<Job> take_from_above(std::uint64_t host);
  // Returns the jobs that were added before `time`, of all hosts, or of those alone whose
  // runs_since() is before it as well.
  enum class From : std::uint8_t { kAll, kThoseThatHang };
  std::vector<std::unique_ptr<Job>> take_late(Clock::time_point time, From hosts = From::kAll);

 private:
  struct Waiting {
    std::unique_ptr<Job> job;
    Clock::time_point since;
  };
  struct Line {
    std::uint64_t host = 0;
    std::deque<Waiting> jobs{};
    std::size_t running = 0;
    std::size_t ready = 0;          // of jobs: may run
    bool has_turn = false;          // is in turns_, as each is that has something ready
    Clock::time_point last_step{};  // the first job came, or one began or ended
  };
  // Brings what follows from the jobs of a line up to date.
  void settle(Line& line);
  void forget_if_idle(std::uint64_t host);

  const std::size_t running_max_;
  std::unordered_map<std::uint64_t, Line> lines_;
  std::deque<Line*> turns_;
  std::size_t size_ = 0, ready_ = 0;
};

}  // namespace files

#endif  // RPCRDMA_FILES_JOB_QUEUE_H_
