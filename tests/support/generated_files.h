// The values of the two files that several programs of tests need: so many types that they are
// compiled once.
#ifndef RPCRDMA_TESTS_SUPPORT_GENERATED_FILES_H_
#define RPCRDMA_TESTS_SUPPORT_GENERATED_FILES_H_

#include "support/generated_value.h"

namespace rpcrdma::test {

// One of each type of idl/nfs3.x.
GeneratedValues values_of_nfs3();
// One of each type of tests/gen/every.x, which uses every construct.
GeneratedValues values_of_every();

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_GENERATED_FILES_H_
