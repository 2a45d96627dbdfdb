// Application memory that is lent to a call, with guards around it, and what must be in it.
#ifndef RPCRDMA_TESTS_SIM_MEMORY_H_
#define RPCRDMA_TESTS_SIM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::simulation {

// Bytes that differ by place and by `id`.
void fill_pattern(MutableBytes bytes, std::uint64_t id);
// Where `bytes` first differ from the pattern; nullopt: nowhere.
std::optional<std::size_t> find_difference(Bytes bytes, std::uint64_t id);

// One piece of memory: lent, then retired when its call has ended.
class GuardedBlock {
 public:
  // `skew` moves the first byte off any alignment.
  GuardedBlock(std::size_t size, std::size_t skew);

  MutableBytes bytes() noexcept { return MutableBytes(memory_).subspan(first_, size_); }
  // The guards around it are as they were made.
  bool guards_are_whole() const noexcept;
  // The call has ended and its contents are no longer needed: from now on nobody writes here.
  void retire() noexcept;
  bool retired() const noexcept { return retired_; }
  // Nobody has written since retire().
  bool is_untouched() const noexcept;
  // For tests of the checkers: one byte behind the end.
  void break_guard() noexcept;

 private:
  std::vector<std::byte> memory_;
  std::size_t first_, size_;
  bool retired_ = false;
};

// Returns whether the bytes behind `used` hold what the block was filled with, or what the
// simulator fills exposed memory with, throughout (I6: nothing beyond the results is written).
bool tail_is_unwritten(Bytes place, std::size_t used, std::byte fill);

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_MEMORY_H_
