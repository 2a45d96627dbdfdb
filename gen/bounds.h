// Computes how large the results of a procedure can get, and its bulk arguments.
#ifndef RPCRDMA_GEN_BOUNDS_H_
#define RPCRDMA_GEN_BOUNDS_H_

#include <cstdint>

#include "gen/ast.h"

namespace rpcrdma::gen {

// Bounds the encoded size of a declaration, bytes. Sums stop at kMany.
struct Bound {
  static constexpr std::uint64_t kMany = std::uint64_t{1} << 40U;

  std::uint64_t whole = 0;       // all that has a bound
  std::uint64_t reduced = 0;     // the same without the data of DDP-eligible items
  bool is_open = false;          // something has no bound, besides DDP-eligible data
  bool has_open_data = false;    // DDP-eligible data has none
  bool has_data = false;         // there is DDP-eligible data
  std::uint64_t data_max = 0;    // of one such item, kMany: no bound
  std::uint64_t data_sum = 0;    // of all of them together, kMany: no bound
  std::uint64_t data_count = 0;  // how many there are at most, kMany: any number
};

// Precondition: the file was checked.
Bound bound_of(const Declaration& declaration);

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_BOUNDS_H_
