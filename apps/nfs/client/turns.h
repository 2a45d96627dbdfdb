// Lets many coroutines of one thread wait around the calls of a client: for a slot, for the end of
// others, and for a while. A coroutine that may continue is put into a queue instead of being
// resumed at once, so that stacks stay short however many wait.
#ifndef RPCRDMA_NFS_CLIENT_TURNS_H_
#define RPCRDMA_NFS_CLIENT_TURNS_H_

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "nfs/client/connections.h"
#include "rpcrdma/coroutine.h"

namespace nfs {

class Turns {
 public:
  using Clock = std::chrono::steady_clock;

  // Runs the task, and everything that begin() has started meanwhile, to the end.
  void run(const std::vector<Connections*>& connections, rpcrdma::Task<void> task);
  // Starts a task that nobody awaits.
  void begin(rpcrdma::Task<void> task);
  // For an event loop of another: resumes what may continue, also by the time. Its tasks go on by
  // the progress() of the connections.
  void resume_ready();
  std::optional<Clock::time_point> next_time() const;
  std::uint64_t active() const noexcept { return active_; }  // tasks that begin() has started
  void resume_later(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }

  // `co_await turns.pause(time)`
  auto pause(Clock::duration time) {
    struct Awaiter {
      Turns& turns;
      Clock::time_point end;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) {
        turns.timers_.push_back({end, coroutine});
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this, Clock::now() + time};
  }

 private:
  struct Timer {
    Clock::time_point end;
    std::coroutine_handle<> coroutine;
  };
  rpcrdma::Task<void> counted(rpcrdma::Task<void> task);
  void wait(const std::vector<Connections*>& connections);

  std::uint64_t active_ = 0;
  std::deque<std::coroutine_handle<>> ready_;
  std::vector<Timer> timers_;
};

// Slots that coroutines take and give back; who comes first is served first.
class Slots {
 public:
  Slots(Turns& turns, std::uint32_t count) : turns_(turns), free_(count) {}

  // `co_await slots.take()`
  auto take() noexcept {
    struct Awaiter {
      Slots& slots;
      bool await_ready() const noexcept {
        if (slots.free_ == 0) return false;
        --slots.free_;
        return true;
      }
      void await_suspend(std::coroutine_handle<> coroutine) { slots.waiting_.push_back(coroutine); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }
  void give_back() {
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    turns_.resume_later(waiting_.front());  // which has the slot now
    waiting_.pop_front();
  }

 private:
  Turns& turns_;
  std::uint32_t free_;
  std::deque<std::coroutine_handle<>> waiting_;
};

// Tasks whose end one coroutine awaits.
class Group {
 public:
  explicit Group(Turns& turns) : turns_(turns) {}

  void enter() noexcept { ++count_; }
  void leave() {
    if (--count_ > 0 || !waiting_) return;
    turns_.resume_later(waiting_);
    waiting_ = nullptr;
  }
  // `co_await group.end()`
  auto end() noexcept {
    struct Awaiter {
      Group& group;
      bool await_ready() const noexcept { return group.count_ == 0; }
      void await_suspend(std::coroutine_handle<> coroutine) noexcept { group.waiting_ = coroutine; }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  Turns& turns_;
  std::uint64_t count_ = 0;
  std::coroutine_handle<> waiting_ = nullptr;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_TURNS_H_
