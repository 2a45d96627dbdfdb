// The generated decoders of the file that uses every construct.
#include "fuzz/fuzz.h"
#include "fuzz/generated.h"
#include "support/generated_files.h"

FUZZ_TARGET(every) {
  static const auto types = rpcrdma::test::values_of_every();
  return rpcrdma::fuzz::decode_input(types, data, size);
}
