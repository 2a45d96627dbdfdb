// Counts what this program allocates, when it is linked with operator_new.cc.
#ifndef RPCRDMA_TOOLS_BENCH_ALLOCATIONS_H_
#define RPCRDMA_TOOLS_BENCH_ALLOCATIONS_H_

#include <atomic>
#include <cstdint>

namespace rpcrdma::tools::bench {

// Returns how often operator new ran in this process; 0 without operator_new.cc.
std::uint64_t allocations() noexcept;
void count_allocation() noexcept;
// Counts in `counter` from now on, for example in memory that another process reads; it lives until
// the process ends.
void count_allocations_in(std::atomic<std::uint64_t>& counter) noexcept;

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_ALLOCATIONS_H_
