// The decoders that rpcrdma-gen made for one file: the first byte says which type, the second how
// the rest is given to the reader, the rest is what a peer sent.
#ifndef RPCRDMA_TESTS_FUZZ_GENERATED_H_
#define RPCRDMA_TESTS_FUZZ_GENERATED_H_

#include <cstddef>
#include <cstdint>

#include "support/generated_value.h"

namespace rpcrdma::fuzz {

// `types`: a value of each type of the file.
int decode_input(const test::GeneratedValues& types, const std::uint8_t* data, std::size_t size);

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_GENERATED_H_
