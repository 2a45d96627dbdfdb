// Calls and services in coroutines.
//
//   rpcrdma::Task<void> greet(rpcrdma::Client& client) {
//     auto call = client.prepare({kProgram, kVersion, kGreet});
//     if (!call) co_return;
//     auto reply = co_await client.call_async(std::move(*call));   // Expected<Reply, Error>
//     if (reply) std::puts(...);
//   }
//   start_detached(greet(*client));
//   client->drain();                                               // or any event loop
//
// There is no scheduler: a coroutine runs where it is resumed. A coroutine that awaits a call is
// resumed in place of the callback, inside Client::progress(), start(), call(), drain() or the
// client's destructor, on the client's thread. The rules for callbacks apply: between two co_awaits
// it must not call progress(), call() or drain() of that client, nor destroy it.
//
// Cost: each coroutine's frame is one allocation by its caller, unless the compiler removes it.
// Awaiting a call allocates nothing.
#ifndef RPCRDMA_COROUTINE_H_
#define RPCRDMA_COROUTINE_H_

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "rpcrdma/export.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/service.h"

namespace rpcrdma {

template <class T>
class Task;
RPCRDMA_EXPORT void start_detached(Task<void> task);

namespace detail {

// Ends the program with the text if the condition is false.
RPCRDMA_EXPORT void require(bool condition, const char* text) noexcept;

// The common part of all tasks' promises. A task that ends before it waits for anything returns to
// its awaiter; a task that ends later resumes it. Thus stacks stay short even without tail calls by
// the compiler, and a task may be resumed on another thread than it started on.
class TaskPromise {
 public:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) noexcept {
      TaskPromise& promise = ended.promise();
      if (promise.detached_) {
        ended.destroy();
        return std::noop_coroutine();
      }
      // From here on the frame may be gone at any time.
      void* const awaiter = promise.awaiter_.exchange(&promise, std::memory_order_acq_rel);
      if (awaiter == nullptr) return std::noop_coroutine();
      return std::coroutine_handle<>::from_address(awaiter);
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept {
    if (detached_) std::terminate();
    exception_ = std::current_exception();
  }

 protected:
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  template <class T>
  friend class rpcrdma::Task;
  friend void rpcrdma::start_detached(Task<void> task);

  bool ended() const noexcept { return awaiter_.load(std::memory_order_acquire) == this; }
  // Registers the coroutine to be resumed at the end; false if the task has already ended.
  bool wait_for_end(std::coroutine_handle<> awaiter) noexcept {
    void* nobody = nullptr;
    if (awaiter_.compare_exchange_strong(nobody, awaiter.address(), std::memory_order_acq_rel)) {
      return true;
    }
    require(nobody == this, "a Task is awaited twice");
    return false;
  }

  std::atomic<void*> awaiter_ = nullptr;  // a coroutine's address; the promise's own at the end
  std::exception_ptr exception_;
  bool started_ = false;
  bool detached_ = false;
};

template <class T>
class TaskPromiseOf final : public TaskPromise {
 public:
  Task<T> get_return_object() noexcept;
  template <class U>
  requires std::is_constructible_v<T, U&&>
  void return_value(U&& value) { value_.emplace(std::forward<U>(value)); }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromiseOf<void> final : public TaskPromise {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const { rethrow(); }
};

}  // namespace detail

// A coroutine that returns one T. It does nothing until it is awaited, started or detached. Its
// owner controls its lifetime: destroying the Task destroys the coroutine's frame and everything in
// it. A frame with an outstanding call must not be destroyed, since the library still refers to the
// memory for the reply: the program ends with a message that says so. Close or drain the client
// first.
//
// An exception that leaves the coroutine is rethrown where the result is taken.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromiseOf<T>;

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (coroutine_) coroutine_.destroy();
      coroutine_ = std::exchange(other.coroutine_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  // Runs it until it waits for something, or to its end. Call once. It may be awaited afterwards,
  // so several tasks can run concurrently: start all, then await each.
  void start() {
    detail::require(coroutine_ && !coroutine_.promise().started_, "a Task is started twice");
    coroutine_.promise().started_ = true;
    coroutine_.resume();
  }
  // Returns whether the task has ended; false before it is started.
  bool done() const noexcept { return coroutine_ && coroutine_.promise().ended(); }
  // Returns the task's result or rethrows its exception. Call once, when done().
  T result() && {
    detail::require(done(), "the result of a Task that has not ended");
    return coroutine_.promise().take();
  }

  // `co_await std::move(task)`, or co_await on the function's result; at most one coroutine awaits
  // a task.
  auto operator co_await() && noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> task;
      bool await_ready() const noexcept { return task.promise().ended(); }
      bool await_suspend(std::coroutine_handle<> awaiter) noexcept {
        if (!std::exchange(task.promise().started_, true)) task.resume();
        return task.promise().wait_for_end(awaiter);
      }
      T await_resume() { return task.promise().take(); }
    };
    detail::require(static_cast<bool>(coroutine_), "a Task that was moved away is awaited");
    return Awaiter{coroutine_};
  }

 private:
  friend promise_type;
  friend void start_detached(Task<void> task);
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

// Starts a task that has no owner: its frame is destroyed when it ends. An exception that leaves it
// ends the program (std::terminate). Everything it refers to must live until it ends. If it awaits
// a client, wait for its end through that client: Client::drain(), or the destructor, which ends
// all calls with kCanceled.
void start_detached(Task<void> task);

// A service whose calls are answered by coroutines. They may await calls to other servers, or
// anything else, and take as long as they need; other calls are served meanwhile.
//
// Destroy a client that serve() awaits before the server: its destructor ends the outstanding calls
// with kCanceled, so that the coroutines can end. Server::stop() gives them
// ServerOptions::drain_timeout.
class RPCRDMA_EXPORT CoroutineService : public Service {
 public:
  // Ends the program with a message if calls are still in service.
  ~CoroutineService() override;

  // Answers one call: kSuccess sends context.results(), any other status is sent as the answer (see
  // CallContext::fail). An exception that leaves it is answered with kSystemErr. The context lives
  // until the coroutine ends, even if the connection is lost meanwhile; do not call its succeed()
  // and fail(). reserve_results() and result_memory() are for the server's thread only, so not for
  // a coroutine that was resumed on another thread.
  virtual Task<AcceptStatus> serve(CallContext& context) = 0;

  void call(CallContext& context) final;
  // Returns the number of calls whose coroutine has not ended. From any thread.
  std::uint64_t calls_in_service() const noexcept {
    return std::atomic_ref(in_service_).load(std::memory_order_acquire);
  }

 private:
  Task<void> answer(CallContext& context);

  // Accessed by std::atomic_ref only: shards, and threads that resume coroutines, change it. It is
  // no std::atomic, which would change the recorded binary interface of 0.1.
  alignas(std::atomic_ref<std::uint64_t>::required_alignment) mutable std::uint64_t in_service_ = 0;
};

// --- Definitions of the templates above ---------------------------------------------------------

template <class T>
Task<T> detail::TaskPromiseOf<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromiseOf>::from_promise(*this));
}
inline Task<void> detail::TaskPromiseOf<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromiseOf>::from_promise(*this));
}

}  // namespace rpcrdma

#endif  // RPCRDMA_COROUTINE_H_
