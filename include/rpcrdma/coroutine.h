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
// There is no scheduler: a coroutine runs where somebody resumes it. One that awaits a call is
// resumed in the place of the callback, inside Client::progress(), start(), call(), drain() or the
// client's destructor, on the client's thread. What holds for callbacks holds for it: between two
// co_awaits it must not call progress(), call() or drain() of that client, nor destroy it.
//
// What it costs: each coroutine's frame is one allocation by its caller, unless the compiler
// removes it. Awaiting a call allocates nothing.
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

// Ends the program with the text when the condition is false.
RPCRDMA_EXPORT void require(bool condition, const char* text) noexcept;

// What the promises of all tasks have in common. A task that ends before it waits for anything
// returns to its awaiter; one that ends later resumes it. So stacks stay short also where the
// compiler makes no tail calls, and a task may be resumed on another thread than it began on.
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
  // To be resumed at the end; whether there is something to wait for.
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

// A coroutine that gives one T. It does nothing until it is awaited, started or detached, and is
// its owner's: destroying the Task destroys the coroutine's frame with all that is in it. A frame
// in which a call is under way cannot go, since the library holds on to the place where the reply
// is put: the program ends with a message that says so. Close or drain the client before.
//
// An exception that leaves the coroutine is thrown again where the result is taken.
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

  // Runs it until it waits for something, or to its end. Once; it may be awaited afterwards, so
  // that several run at a time: start all, then await each.
  void start() {
    detail::require(coroutine_ && !coroutine_.promise().started_, "a Task is started twice");
    coroutine_.promise().started_ = true;
    coroutine_.resume();
  }
  // Whether it has ended; false before it is started.
  bool done() const noexcept { return coroutine_ && coroutine_.promise().ended(); }
  // What it gave, or its exception. Once, when done().
  T result() && {
    detail::require(done(), "the result of a Task that has not ended");
    return coroutine_.promise().take();
  }

  // `co_await std::move(task)`, or of the function's result; at most one coroutine awaits a task.
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

// Starts a task that has no owner: its frame goes when it ends. An exception that leaves it
// ends the program (std::terminate). What it refers to must live until its end; a client that it
// awaits is a good place to wait for that: Client::drain(), or the destructor, which ends all calls
// with kCanceled.
void start_detached(Task<void> task);

// A service whose calls are answered by coroutines, which may await calls to other servers, or
// anything else, and take as long as they need; other calls are served meanwhile.
//
// A client that serve() awaits goes before the server does: its destructor ends the calls under way
// with kCanceled, so that the coroutines can come to their ends. Server::stop() gives them
// ServerOptions::drain_timeout.
class RPCRDMA_EXPORT CoroutineService : public Service {
 public:
  // The program ends with a message when calls are still in service.
  ~CoroutineService() override;

  // Answers one call: kSuccess sends context.results(), another status is sent as it is (see
  // CallContext::fail). An exception that leaves it is answered with kSystemErr. The context lives
  // until the end, also when the connection is lost meanwhile; do not call its succeed() and
  // fail(). reserve_results() and result_memory() are for the server's thread only, so not for a
  // coroutine that was resumed on another one.
  virtual Task<AcceptStatus> serve(CallContext& context) = 0;

  void call(CallContext& context) final;
  // Calls whose coroutine has not ended; for the thread that all of them run on.
  std::uint64_t calls_in_service() const noexcept { return in_service_; }

 private:
  Task<void> answer(CallContext& context);

  std::uint64_t in_service_ = 0;
};

// --- Of the templates above ---------------------------------------------------------------------

template <class T>
Task<T> detail::TaskPromiseOf<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromiseOf>::from_promise(*this));
}
inline Task<void> detail::TaskPromiseOf<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromiseOf>::from_promise(*this));
}

}  // namespace rpcrdma

#endif  // RPCRDMA_COROUTINE_H_
