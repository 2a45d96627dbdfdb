// The generated decoders of NFS version 3.
#include "fuzz/fuzz.h"
#include "fuzz/generated.h"
#include "support/generated_files.h"

FUZZ_TARGET(nfs3) {
  static const auto types = rpcrdma::test::values_of_nfs3();
  return rpcrdma::fuzz::decode_input(types, data, size);
}
