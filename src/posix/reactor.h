// One epoll descriptor for everything that a provider waits for: sockets, a timer, a wake-up.
#ifndef RPCRDMA_POSIX_REACTOR_H_
#define RPCRDMA_POSIX_REACTOR_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "base/deadline.h"
#include "posix/born_here.h"
#include "posix/fd.h"
#include "rpcrdma/types.h"

namespace rpcrdma::posix {

// Something with a descriptor, or a deadline, or both.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void handle_ready(std::uint32_t /*events*/) {}  // EPOLL* bits
  virtual void handle_deadline() = 0;

 private:
  friend class Reactor;
  Deadline deadline_;
};

// Watches a descriptor that others look after, and that only has to end block().
class Bystander final : public Watched {
  void handle_deadline() override {}
};

// A system call that failed.
struct SystemError {
  int code;               // errno
  const char* operation;  // static text
};
// Returns the error that errno has now.
inline Unexpected<SystemError> failed(const char* operation) noexcept {
  return Unexpected<SystemError>(SystemError{errno, operation});
}

// Objects may stop being watched, and be destroyed, at any time: also from inside a handler.
//
// After fork() a child has the same descriptors, and what it does to them it does to its parent's.
// So a copy that a child destroys stops watching nothing. A child that waits or dispatches itself
// takes the reactor over, as a daemon does whose parent ends.
class Reactor {
 public:
  static Expected<std::unique_ptr<Reactor>, SystemError> make();

  [[nodiscard]] bool watch(int fd, std::uint32_t events, Watched& watched);
  // Changes the watching of a descriptor that is watched already, possibly by another object.
  // False: it was not watched.
  bool rewatch(int fd, std::uint32_t events, Watched& before, Watched& watched);
  void unwatch(int fd, Watched& watched);
  // Replaces the deadline; handle_deadline() is called once when it has come.
  void set_deadline(Watched& watched, Deadline when);

  static Instant now() noexcept;
  // Returns whether a time of now() is about that of now, within 20 ms and the system's tick. Costs
  // a fifth of asking for the time. A time of another clock hardly ever is.
  static bool is_about_now(Instant time) noexcept;
  // Calls the handlers of what is ready, and then of deadlines that have come.
  void dispatch();
  // Returns whether a deadline has come that dispatch() has not handled yet.
  bool is_deadline_over() const noexcept;
  // Waits until something is ready; dispatch() then begins with that.
  void block();
  // Returns whether something is ready, without waiting.
  bool peek();
  // The user's timer, beside the deadlines.
  void set_user_timer(Deadline when);
  // Brings the timer descriptor up to date.
  void arm();
  // Ends block() from any thread. Callers that check their queue after dispatch() see all work that
  // was queued before the call.
  void wake() noexcept;
  // Returns whether wake() was called and dispatch() has not handled it yet.
  bool is_woken() const noexcept { return woken_.load(std::memory_order_relaxed); }
  int fd() const noexcept { return epoll_.value(); }
  // This process is a child, and has only a copy.
  bool is_copy() const noexcept { return owner_.elsewhere(); }

 private:
  Reactor(Fd epoll, Fd timer, Fd event);
  void drain(int fd);
  void forget(Watched& watched);
  std::size_t fetch(int timeout);
  void handle_ready();
  void dispatch_deadlines();

  Fd epoll_, timer_, event_;
  BornHere owner_;
  bool has_dropped_ = false;  // it has not stopped watching what is gone: nothing is fetched then
  std::array<epoll_event, 64> ready_{};
  std::size_t ready_begin_ = 0;
  std::size_t ready_end_ = 0;
  std::set<std::pair<Instant, Watched*>> deadlines_;
  Deadline user_timer_;
  Deadline armed_;  // what the timer descriptor is set to
  std::atomic<bool> woken_ = false;
};

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_REACTOR_H_
