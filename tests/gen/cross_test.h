// Puts every type of a .x file to these tests: rpcgen's C code and ours agree on each byte, and
// hostile bytes are refused within bounds.
#ifndef RPCRDMA_TESTS_GEN_CROSS_TEST_H_
#define RPCRDMA_TESTS_GEN_CROSS_TEST_H_

#include <gtest/gtest.h>

#include "tests/gen/c_codec.h"
#include "tests/support/generated_value.h"

namespace rpcrdma::gen_test {

// Ours → C → ours, over random values of each type.
void agree_with_rpcgen(const CCodecs& codecs, const test::GeneratedValues& types);
// No part of an encoding is one, nor is one with something behind it.
void refuse_other_sizes(const test::GeneratedValues& types);
// Each word in turn becomes a length that nothing backs: decoding takes at most a small multiple of
// what came in (docs/idl.md).
void take_little_memory(const test::GeneratedValues& types);

}  // namespace rpcrdma::gen_test

#endif  // RPCRDMA_TESTS_GEN_CROSS_TEST_H_
