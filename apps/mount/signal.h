// Lets coroutines wait for news of something, and look at it again.
#ifndef RPCRDMA_MOUNT_SIGNAL_H_
#define RPCRDMA_MOUNT_SIGNAL_H_

#include <coroutine>
#include <utility>
#include <vector>

#include "nfs/client/turns.h"

namespace mounts {

class Signal {
 public:
  // `co_await signal`
  auto operator co_await() noexcept {
    struct Awaiter {
      Signal& signal;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) {
        signal.waiting_.push_back(coroutine);
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }
  // Those that wait go on behind the turn that is under way.
  void notify(nfs::Turns& turns) {
    for (const auto each : std::exchange(waiting_, {})) turns.resume_later(each);
  }

 private:
  std::vector<std::coroutine_handle<>> waiting_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_SIGNAL_H_
