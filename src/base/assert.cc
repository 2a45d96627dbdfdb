#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace rpcrdma {

void assertion_failed(const char* file, int line, const char* condition,
                      const char* text) noexcept {
  std::fprintf(stderr, "rpcrdma: internal error: %s\n  %s:%d: %s is false\n", text, file, line,
               condition);
  std::abort();
}

void misused(const char* text) noexcept {
  std::fprintf(stderr, "rpcrdma: misuse: %s\n", text);
  std::abort();
}

}  // namespace rpcrdma
