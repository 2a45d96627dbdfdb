// Assertions about our own code. A peer must never be able to trip one: what a peer sends is
// answered with values (docs/invariants.md). They stay on in release builds.
#ifndef RPCRDMA_BASE_ASSERT_H_
#define RPCRDMA_BASE_ASSERT_H_

namespace rpcrdma {

// Prints the place, the condition and the text to stderr, then aborts.
[[noreturn]] void assertion_failed(const char* file, int line, const char* condition,
                                   const char* text) noexcept;
// Ends a program that breaks a rule of the library's interface, where no error can be returned. A
// peer must never be able to bring that about either.
[[noreturn]] void misused(const char* text) noexcept;

}  // namespace rpcrdma

// About what an application does; see misused().
#define RPCRDMA_REQUIRE(condition, text)                                    \
  (__builtin_expect(static_cast<bool>(condition), 1) ? static_cast<void>(0) \
                                                     : ::rpcrdma::misused(text))

#define RPCRDMA_ASSERT(condition, text)              \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::rpcrdma::assertion_failed(__FILE__, __LINE__, #condition, text))

#endif  // RPCRDMA_BASE_ASSERT_H_
