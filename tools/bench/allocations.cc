#include "tools/bench/allocations.h"

namespace rpcrdma::tools::bench {
namespace {

std::atomic<std::uint64_t> own_counter = 0;
std::atomic<std::atomic<std::uint64_t>*> counter = &own_counter;

}  // namespace

std::uint64_t allocations() noexcept {
  return counter.load(std::memory_order_relaxed)->load(std::memory_order_relaxed);
}

void count_allocation() noexcept {
  counter.load(std::memory_order_relaxed)->fetch_add(1, std::memory_order_relaxed);
}

void count_allocations_in(std::atomic<std::uint64_t>& shared) noexcept {
  counter.store(&shared, std::memory_order_relaxed);
}

}  // namespace rpcrdma::tools::bench
