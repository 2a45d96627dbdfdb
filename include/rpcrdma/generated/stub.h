// What the clients that rpcrdma-gen makes are built on (docs/idl.md).
//
//   blob::BLOB_V1_Client blobs(client);
//   auto got = blobs.BLOB_GET(arguments, buffer);          // waits; data lands in the buffer
//   blobs.BLOB_GET_start(arguments, buffer, [](auto got) { … });
//   auto got = co_await blobs.BLOB_GET_async(arguments, buffer);   // a named value
#ifndef RPCRDMA_GENERATED_STUB_H_
#define RPCRDMA_GENERATED_STUB_H_

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rpcrdma/client.h"
#include "rpcrdma/export.h"
#include "rpcrdma/generated/codec.h"

namespace rpcrdma {

// What results may take, bytes, where neither the .x file nor the caller says it: for each item
// without a bound, and for all of them together.
inline constexpr std::uint32_t kUnboundedResultsMax = 64U << 10U;
inline constexpr std::uint32_t kResultsMaxByDefault = (16U << 20U) - 4096;

struct CallOptions {
  // Bound on the results, without what has a place, bytes; 0: what follows from the .x file.
  std::uint32_t results_size_max = 0;
  // 0: ClientOptions::call_timeout.
  std::chrono::nanoseconds timeout{};
};

// Memory for DDP-eligible results, in their order: {}, a buffer, or {buffer, buffer}. Each is lent
// until the call has ended, and is filled by RDMA, or by a copy when the peer left the item in its
// message. An item without a place is a view of the reply.
class Places {
 public:
  Places() noexcept = default;
  template <class Buffer>
  requires std::is_convertible_v<Buffer&&, MutableBytes> Places(Buffer&& buffer)
  noexcept : places_{MutableBytes(buffer)}, count_(1) {}  // implicit: a buffer is the usual case
  // At most kBulkItemsMax; with more of them the call fails with kTooLarge. No initializer_list,
  // since GCC 12 takes none within a co_await expression.
  template <class... Buffers>
  requires(sizeof...(Buffers) > 1 && (std::is_convertible_v<Buffers&&, MutableBytes> && ...))
      Places(Buffers&&... buffers)
  noexcept : count_(sizeof...(Buffers)) {
    std::size_t i = 0;
    const auto add = [&](MutableBytes buffer) {
      if (i < places_.size()) places_[i++] = buffer;
    };
    (add(MutableBytes(buffers)), ...);
  }

  bool empty() const noexcept { return count_ == 0; }
  bool ok() const noexcept { return count_ <= places_.size(); }
  std::span<const MutableBytes> view() const noexcept {
    return std::span(places_).first(std::min(count_, places_.size()));
  }

 private:
  std::array<MutableBytes, kBulkItemsMax> places_{};
  std::size_t count_ = 0;
};

// An argument of P_async, which is awaited: a value that has a name. GCC 12 destroys an aggregate
// twice when it is made within the awaited expression, whatever that does with it; every compiler
// therefore refuses braces and other temporaries here:
//
//   co_await client.P_async({.key = key});                           // refused
//   const put_args args{.key = key}; co_await client.P_async(args);  // name it first
template <class T>
class NamedArgument {
 public:
  NamedArgument(const T& value) noexcept : value_(value) {}  // implicit: what a caller writes
  NamedArgument(const T&&) = delete;                         // give the value a name: docs/idl.md
  operator const T&() const noexcept { return value_; }

 private:
  const T& value_;
};

// Harmless, and so taken as they come: what has no destructor, and text, which is no aggregate.
template <class T>
using AsyncArgument =
    std::conditional_t<std::is_trivially_destructible_v<T> || std::is_same_v<T, std::string>,
                       const T&, NamedArgument<T>>;

// Results with views in them: a T, together with the reply that keeps what the views are of. Those
// of items that had a place are of that, and outlive it. Keep few, since each holds a Receive
// buffer back; it does not outlive the client. It has no names of its own: T's are the file's.
template <class T>
class WithReply : public T {
 public:
  explicit WithReply(Reply&& reply) noexcept : rpcrdma_reply_(std::move(reply)) {}

 private:
  template <class U>
  friend Reply& reply_of(WithReply<U>& results) noexcept;

  Reply rpcrdma_reply_;
};

template <class T>
Reply& reply_of(WithReply<T>& results) noexcept {
  return results.rpcrdma_reply_;
}

// Of a call that is made in a coroutine; see CallAwaiter, which it holds. `R` is what the procedure
// gives.
template <class R>
class [[nodiscard]] ResultsAwaiter {
 public:
  using Take = Expected<R, Error> (*)(Reply&&);

  ResultsAwaiter(Client& client, Expected<Call, Error>&& call, Take take) : take_(take) {
    if (call) {
      inner_.emplace(Begin{client, *call});
    } else {
      error_.emplace(std::move(call.error()));
    }
  }

  bool await_ready() const noexcept { return !inner_; }
  bool await_suspend(std::coroutine_handle<> coroutine) { return inner_->await_suspend(coroutine); }
  Expected<R, Error> await_resume() {
    if (!inner_) return Unexpected<Error>(std::move(*error_));
    Expected<Reply, Error> reply = inner_->await_resume();
    if (!reply) return Unexpected<Error>(std::move(reply.error()));
    return take_(std::move(*reply));
  }

 private:
  // Makes the awaiter in its place, since it cannot be moved.
  struct Begin {
    Client& client;
    Call& call;
    operator CallAwaiter() const { return client.call_async(std::move(call)); }
  };

  std::optional<CallAwaiter> inner_;
  std::optional<Error> error_;
  Take take_;
};

// --- For the generated code
// -----------------------------------------------------------------------

namespace stub {

// A call whose arguments take what was counted, and whose results at most `results_max` bytes.
RPCRDMA_EXPORT Expected<Call, Error> prepare(Client& client, const Procedure& procedure,
                                             const SizeCounter& arguments,
                                             std::uint64_t results_max, const Places& places,
                                             const CallOptions& options);

template <class R>
Expected<R, Error> call(Client& client, Expected<Call, Error>&& call,
                        Expected<R, Error> (*take)(Reply&&)) {
  if (!call) return Unexpected<Error>(std::move(call.error()));
  Expected<Reply, Error> reply = client.call(std::move(*call));
  if (!reply) return Unexpected<Error>(std::move(reply.error()));
  return take(std::move(*reply));
}

template <class R, class F>
Expected<void, Error> start(Client& client, Expected<Call, Error>&& call,
                            Expected<R, Error> (*take)(Reply&&), F&& callback) {
  if (!call) return Unexpected<Error>(std::move(call.error()));
  return client.start(std::move(*call), [take, callback = std::forward<F>(callback)](
                                            Expected<Reply, Error> reply) mutable {
    Expected<R, Error> results =
        reply ? take(std::move(*reply)) : Unexpected<Error>(std::move(reply.error()));
    static_cast<void>(callback(std::move(results)));
  });
}

}  // namespace stub
}  // namespace rpcrdma

#endif  // RPCRDMA_GENERATED_STUB_H_
