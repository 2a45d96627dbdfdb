// The switch of the faults that scripts/mutants.py writes into one build, beside what they
// replace. No build of ours includes it.
#ifndef RPCRDMA_TESTS_MUTANTS_PLANTED_H_
#define RPCRDMA_TESTS_MUTANTS_PLANTED_H_

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <type_traits>

// The number of the fault that is on in this process; 0 where RPCRDMA_PLANTED is not set.
inline int rpcrdma_planted_number = [] {
  const char* const number = std::getenv("RPCRDMA_PLANTED");
  return number == nullptr ? 0 : std::atoi(number);
}();

inline std::atomic<bool> rpcrdma_is_planted_noted = false;

// Notes that a test has come to the fault that is on: it creates the file that
// RPCRDMA_PLANTED_REACHED names. It leaves errno as it is, for the code that reads it next.
inline bool rpcrdma_note_planted() noexcept {
  if (rpcrdma_is_planted_noted.exchange(true)) return true;
  const int error = errno;
  const char* const name = std::getenv("RPCRDMA_PLANTED_REACHED");
  const int file = name == nullptr ? -1 : ::open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  errno = error;
  return true;
}

// Returns whether the fault of this number is on. In what the compiler computes none is.
constexpr bool rpcrdma_planted(int number) noexcept {
  return !__builtin_is_constant_evaluated() && number == rpcrdma_planted_number &&
         rpcrdma_note_planted();
}

// The same for a conditional expression of type `Both` in the place of an operand of type `Old`. It
// refuses another type: that would call another overload, or copy what the code refers to.
template <typename Old, typename Both>
constexpr bool rpcrdma_planted(int number) noexcept {
  static_assert(std::is_same_v<Old, Both> ||
                (std::is_scalar_v<std::decay_t<Old>> &&
                 std::is_same_v<std::decay_t<Old>, std::decay_t<Both>>));
  return rpcrdma_planted(number);
}

#endif  // RPCRDMA_TESTS_MUTANTS_PLANTED_H_
