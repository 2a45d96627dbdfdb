// Counts heap allocations of the whole program: linking this replaces operator new and delete.
#ifndef RPCRDMA_TESTS_SUPPORT_ALLOCATION_COUNTER_H_
#define RPCRDMA_TESTS_SUPPORT_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace rpcrdma::test {

void start_counting_allocations() noexcept;
// How many there were since the start.
std::uint64_t stop_counting_allocations() noexcept;

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_ALLOCATION_COUNTER_H_
