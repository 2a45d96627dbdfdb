// The generated decoders of NFS version 3.
#include "fuzz/generated.h"
#include "nfs3_random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return rpcrdma::fuzz::decode_input(data, size, [](auto visit) { ::nfs3::visit_types(visit); });
}
