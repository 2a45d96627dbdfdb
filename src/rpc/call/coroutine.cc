#include "rpcrdma/coroutine.h"

#include "base/assert.h"
#include "rpc/call/client_impl.h"

namespace rpcrdma {

void detail::require(bool condition, const char* text) noexcept {
  RPCRDMA_REQUIRE(condition, text);
}

void start_detached(Task<void> task) {
  detail::require(task.coroutine_ && !task.coroutine_.promise().started_,
                  "a Task is started twice");
  const auto coroutine = std::exchange(task.coroutine_, nullptr);
  coroutine.promise().detached_ = coroutine.promise().started_ = true;
  coroutine.resume();
}

// --- Awaiting a call ---------------------------------------------------------------------------

CallAwaiter::~CallAwaiter() {
  RPCRDMA_ASSERT(stage_ == Stage::kPrepared || stage_ == Stage::kEnded,
                 "a coroutine is destroyed while a call that it awaits is under way; close or "
                 "drain the client first");
}

bool CallAwaiter::await_suspend(std::coroutine_handle<> coroutine) {
  RPCRDMA_ASSERT(call_.impl_ != nullptr, "a Call is started twice");
  coroutine_ = coroutine;
  stage_ = Stage::kStarting;
  ClientImpl& client = *call_.impl_;
  auto started = client.start(std::move(call_), [this](Expected<Reply, Error> reply) {
    result_.emplace(std::move(reply));
    const bool suspended = stage_ == Stage::kUnderWay;
    stage_ = Stage::kEnded;
    if (suspended) coroutine_.resume();  // may destroy this awaiter
  });
  if (!started) {
    result_.emplace(Unexpected<Error>(std::move(started.error())));
    stage_ = Stage::kEnded;
  }
  if (stage_ == Stage::kEnded) return false;
  stage_ = Stage::kUnderWay;
  return true;
}

CallAwaiter Client::call_async(Call call) noexcept {
  return CallAwaiter(std::move(call));
}

// --- CoroutineService --------------------------------------------------------------------------

CoroutineService::~CoroutineService() {
  RPCRDMA_ASSERT(calls_in_service() == 0,
                 "a CoroutineService is destroyed with calls in it; destroy the clients that its "
                 "coroutines await first");
}

void CoroutineService::call(CallContext& context) {
  start_detached(answer(context));
}

Task<void> CoroutineService::answer(CallContext& context) {
  std::atomic_ref(in_service_).fetch_add(1, std::memory_order_relaxed);
  AcceptStatus status = AcceptStatus::kSystemErr;
  try {
    status = co_await serve(context);
  } catch (...) {
    // The peer learns that the server failed; what failed is the service's own business.
  }
  std::atomic_ref(in_service_).fetch_sub(1, std::memory_order_release);
  if (status == AcceptStatus::kSuccess) {
    context.succeed();
  } else {
    context.fail(status);
  }
}

}  // namespace rpcrdma
