// A callable stored in place, without an allocation: run when a call ends.
#ifndef RPCRDMA_CALLBACK_H_
#define RPCRDMA_CALLBACK_H_

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace rpcrdma {

template <class Signature>
class Callback;

// Holds a callable of up to 64 bytes (a lambda with eight pointers); a larger one does not compile.
// Move-only. Calling an empty Callback does nothing.
template <class... Arguments>
class Callback<void(Arguments...)> {
 public:
  static constexpr std::size_t kSizeMax = 64;  // bytes

  Callback() noexcept = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Callback> &&
           std::is_invocable_v<F&, Arguments...>)
      Callback(F&& callable) {  // implicit: a lambda is passed where a Callback is expected
    using Value = std::remove_cvref_t<F>;
    static_assert(sizeof(Value) <= kSizeMax, "capture less, or a pointer to it");
    static_assert(alignof(Value) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<Value>);
    ::new (static_cast<void*>(storage_)) Value(std::forward<F>(callable));
    invoke_ = [](void* self, Arguments&&... arguments) {
      (*static_cast<Value*>(self))(std::forward<Arguments>(arguments)...);
    };
    if constexpr (!std::is_trivially_copyable_v<Value>) {
      move_ = [](void* from, void* to) noexcept {
        auto* value = static_cast<Value*>(from);
        if (to != nullptr) ::new (to) Value(std::move(*value));
        value->~Value();
      };
    }
  }
  Callback(Callback&& other) noexcept { take(other); }
  Callback& operator=(Callback&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Callback() { reset(); }

  explicit operator bool() const noexcept { return invoke_ != nullptr; }
  void operator()(Arguments... arguments) {
    if (invoke_ != nullptr) invoke_(storage_, std::forward<Arguments>(arguments)...);
  }

 private:
  void reset() noexcept {
    if (move_ != nullptr) move_(storage_, nullptr);
    invoke_ = nullptr;
    move_ = nullptr;
  }
  void take(Callback& other) noexcept {
    invoke_ = std::exchange(other.invoke_, nullptr);
    move_ = std::exchange(other.move_, nullptr);
    if (move_ != nullptr) {
      move_(other.storage_, storage_);
    } else {
      std::memcpy(storage_, other.storage_, kSizeMax);
    }
  }

  // Zeroed, since take() copies all of it.
  alignas(std::max_align_t) std::byte storage_[kSizeMax] = {};
  void (*invoke_)(void*, Arguments&&...) = nullptr;
  // To nullptr: destroys. Null when empty, and for a trivially copyable callable: take() copies its
  // bytes, and nothing is destroyed. That saves indirect calls, since the callback of each call
  // moves twice.
  void (*move_)(void*, void*) noexcept = nullptr;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_CALLBACK_H_
