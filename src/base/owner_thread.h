// Finds out that two threads use an object of one thread.
#ifndef RPCRDMA_BASE_OWNER_THREAD_H_
#define RPCRDMA_BASE_OWNER_THREAD_H_

#include "base/assert.h"

#ifndef NDEBUG
#include <atomic>
#include <thread>
#endif

namespace rpcrdma {

// With NDEBUG it has no members and does nothing.
class OwnerThread {
 public:
#ifndef NDEBUG
  // Ends the program, as misused() does, if another thread was here first.
  void check(const char* text) noexcept {
    const std::thread::id self = std::this_thread::get_id();
    std::thread::id first{};
    if (owner_.compare_exchange_strong(first, self) || first == self) return;
    misused(text);
  }
  // The next thread is the first one.
  void forget() noexcept {
    owner_ = std::thread::id();
  }

 private:
  std::atomic<std::thread::id> owner_{};
#else
  void check(const char* /*text*/) noexcept {}
  void forget() noexcept {}
#endif
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_OWNER_THREAD_H_
