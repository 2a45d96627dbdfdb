// A value, or the reason why there is none: the interface of std::expected for C++20.
//
// A library that was configured with RPCRDMA_STD_EXPECTED is compiled as C++23 and uses
// std::expected itself. Its users need the same definition, which CMake and pkg-config pass on: the
// two types differ in layout, so the language version of a user's file must not decide alone.
#ifndef RPCRDMA_EXPECTED_H_
#define RPCRDMA_EXPECTED_H_

#ifdef RPCRDMA_STD_EXPECTED

#include <expected>

namespace rpcrdma {
template <class T, class E>
using Expected = std::expected<T, E>;
template <class E>
using Unexpected = std::unexpected<E>;
template <class E>
using BadExpectedAccess = std::bad_expected_access<E>;
}  // namespace rpcrdma

#else

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

namespace rpcrdma {

template <class T, class E>
class Expected;

// Thrown by value() of an Expected that holds no value.
template <class E>
class BadExpectedAccess : public std::exception {
 public:
  explicit BadExpectedAccess(E error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return "value() of an Expected without a value"; }
  E& error() & noexcept { return error_; }
  const E& error() const& noexcept { return error_; }

 private:
  E error_;
};

// Makes an Expected without a value.
template <class E>
class Unexpected {
 public:
  template <class G = E>
  requires(!std::is_same_v<std::remove_cvref_t<G>, Unexpected> &&
           std::is_constructible_v<E, G>) constexpr explicit Unexpected(G&& error)
      : error_(std::forward<G>(error)) {}
  constexpr E& error() & noexcept { return error_; }
  constexpr const E& error() const& noexcept { return error_; }
  constexpr E&& error() && noexcept { return std::move(error_); }
  friend constexpr bool operator==(const Unexpected& a, const Unexpected& b) {
    return a.error_ == b.error_;
  }

 private:
  E error_;
};
template <class E>
Unexpected(E) -> Unexpected<E>;

namespace expected_detail {

struct ValueTag {};
struct ErrorTag {};

// Holds the value or the error. There are two forms because Clang 14 has no conditionally trivial
// destructors, and whether a type is trivial decides how both compilers pass it.
template <class T, class E,
          bool = std::is_trivially_copyable_v<T>&& std::is_trivially_copyable_v<E> >
struct Storage {
  union {
    T value;
    E reason;
  };
  bool has;

  template <class... A>
  constexpr explicit Storage(ValueTag, A&&... a) : value(std::forward<A>(a)...), has(true) {}
  template <class... A>
  constexpr explicit Storage(ErrorTag, A&&... a) : reason(std::forward<A>(a)...), has(false) {}
};

template <class T, class E>
struct Storage<T, E, false> {
  union {
    T value;
    E reason;
  };
  bool has;

  template <class... A>
  constexpr explicit Storage(ValueTag, A&&... a) : value(std::forward<A>(a)...), has(true) {}
  template <class... A>
  constexpr explicit Storage(ErrorTag, A&&... a) : reason(std::forward<A>(a)...), has(false) {}
  Storage(const Storage& from) requires(
      std::is_copy_constructible_v<T>&& std::is_copy_constructible_v<E>)
      : has(from.has) {
    take(from);
  }
  Storage(Storage&& from) noexcept(
      std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_constructible_v<E>)
      : has(from.has) {
    take(std::move(from));
  }
  // Destroys the old content only after the copy is complete: a copy that throws changes nothing.
  Storage& operator=(const Storage& from) requires(
      std::is_copy_constructible_v<T>&& std::is_copy_constructible_v<E>) {
    return *this = Storage(from);
  }
  Storage& operator=(Storage&& from) noexcept {
    static_assert(
        std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_constructible_v<E>,
        "an Expected is assigned only if moving its value and its error cannot throw");
    if (this != &from) {
      end();
      has = from.has;
      take(std::move(from));
    }
    return *this;
  }
  ~Storage() { end(); }

 private:
  template <class From>
  void take(From&& from) {
    if (has) {
      ::new (static_cast<void*>(&value)) T(std::forward<From>(from).value);
    } else {
      ::new (static_cast<void*>(&reason)) E(std::forward<From>(from).reason);
    }
  }
  void end() noexcept {
    if (has) {
      value.~T();
    } else {
      reason.~E();
    }
  }
};

// The value of an Expected<void, E>.
struct Nothing {
  friend constexpr bool operator==(Nothing, Nothing) { return true; }
};

template <class T>
inline constexpr bool is_expected = false;
template <class T, class E>
inline constexpr bool is_expected<Expected<T, E> > = true;
template <class T>
inline constexpr bool is_unexpected = false;
template <class E>
inline constexpr bool is_unexpected<Unexpected<E> > = true;

}  // namespace expected_detail

// Holds a T, or an E that says why there is none. To read what it does not hold is a fault of the
// program: value() throws BadExpectedAccess; *, -> and error() are undefined, as std::expected's
// are, and end the program where _GLIBCXX_ASSERTIONS is defined.
template <class T, class E>
class Expected {
  static constexpr bool is_void = std::is_void_v<T>;
  using Kept = std::conditional_t<is_void, expected_detail::Nothing, T>;
  using Storage = expected_detail::Storage<Kept, E>;
  template <class U>
  static constexpr bool is_value =
      !is_void && !std::is_same_v<std::remove_cvref_t<U>, Expected> &&
      !std::is_same_v<std::remove_cvref_t<U>, std::in_place_t> &&
      !expected_detail::is_unexpected<std::remove_cvref_t<U> > &&
      !expected_detail::is_expected<std::remove_cvref_t<U> > && std::is_constructible_v<Kept, U>;

 public:
  using value_type = T;
  using error_type = E;
  using unexpected_type = Unexpected<E>;

  constexpr Expected() requires(std::is_default_constructible_v<Kept>)
      : kept_(expected_detail::ValueTag{}) {}
  template <class U = Kept>
  requires(is_value<U>) constexpr explicit(!std::is_convertible_v<U, Kept>) Expected(U&& value)
      : kept_(expected_detail::ValueTag{}, std::forward<U>(value)) {}
  template <class... A>
  requires(std::is_constructible_v<Kept, A...>) constexpr explicit Expected(std::in_place_t,
                                                                            A&&... arguments)
      : kept_(expected_detail::ValueTag{}, std::forward<A>(arguments)...) {}
  template <class G>
  requires(std::is_constructible_v<E, const G&>) constexpr explicit(
      !std::is_convertible_v<const G&, E>) Expected(const Unexpected<G>& reason)
      : kept_(expected_detail::ErrorTag{}, reason.error()) {}
  template <class G>
  requires(std::is_constructible_v<E, G>) constexpr explicit(!std::is_convertible_v<G, E>)
      Expected(Unexpected<G>&& reason)
      : kept_(expected_detail::ErrorTag{}, std::move(reason).error()) {}

  // Converts from another Expected, say of a pointer to a derived class.
  template <class U, class G>
  requires(!is_void && std::is_convertible_v<U, Kept> &&
           std::is_convertible_v<G, E>) constexpr Expected(Expected<U, G>&& other)
      : kept_(other ? Storage(expected_detail::ValueTag{}, *std::move(other))
                    : Storage(expected_detail::ErrorTag{}, std::move(other).error())) {}

  constexpr bool has_value() const noexcept { return kept_.has; }
  constexpr explicit operator bool() const noexcept { return kept_.has; }

  constexpr Kept& operator*() & noexcept { return held().value; }
  constexpr const Kept& operator*() const& noexcept { return held().value; }
  constexpr Kept&& operator*() && noexcept { return std::move(held().value); }
  constexpr Kept* operator->() noexcept { return &held().value; }
  constexpr const Kept* operator->() const noexcept { return &held().value; }

  constexpr Kept& value() & requires(!is_void) { return checked(*this).value; }
  constexpr const Kept& value() const& requires(!is_void) { return checked(*this).value; }
  constexpr Kept&& value() && requires(!is_void) { return std::move(checked(*this).value); }
  constexpr void value() const& requires(is_void) { checked(*this); }
  template <class U>
  constexpr Kept value_or(U&& other) const& {
    return kept_.has ? kept_.value : static_cast<Kept>(std::forward<U>(other));
  }
  template <class U>
  constexpr Kept value_or(U&& other) && {
    return kept_.has ? std::move(kept_.value) : static_cast<Kept>(std::forward<U>(other));
  }

  constexpr E& error() & noexcept { return refused().reason; }
  constexpr const E& error() const& noexcept { return refused().reason; }
  constexpr E&& error() && noexcept { return std::move(refused().reason); }

  // Puts a new value in the place of what is held, which ends first.
  template <class... A>
  requires(std::is_nothrow_constructible_v<Kept, A...>) Kept& emplace(A&&... arguments) noexcept {
    *this = Expected(std::in_place, std::forward<A>(arguments)...);
    return kept_.value;
  }

  template <class U, class G>
  friend constexpr bool operator==(const Expected& a, const Expected<U, G>& b) {
    if (a.has_value() != b.has_value()) return false;
    if (!a.has_value()) return a.error() == b.error();
    if constexpr (is_void) {
      return true;
    } else {
      return *a == *b;
    }
  }
  template <class G>
  friend constexpr bool operator==(const Expected& a, const Unexpected<G>& b) {
    return !a.has_value() && a.error() == b.error();
  }
  template <class U>
  requires(is_value<const U&>) friend constexpr bool operator==(const Expected& a, const U& b) {
    return a.has_value() && *a == b;
  }

 private:
  template <class Self>
  static constexpr auto& checked(Self& self) {
    if (!self.kept_.has) throw BadExpectedAccess<E>(self.kept_.reason);
    return self.kept_;
  }
  constexpr auto& held() noexcept { return assumed(*this, true); }
  constexpr auto& held() const noexcept { return assumed(*this, true); }
  constexpr auto& refused() noexcept { return assumed(*this, false); }
  constexpr auto& refused() const noexcept { return assumed(*this, false); }
  template <class Self>
  static constexpr auto& assumed(Self& self, [[maybe_unused]] bool has) noexcept {
#ifdef _GLIBCXX_ASSERTIONS
    if (self.kept_.has != has) __builtin_trap();
#endif
    return self.kept_;
  }

  Storage kept_;
};

}  // namespace rpcrdma

#endif

#endif  // RPCRDMA_EXPECTED_H_
