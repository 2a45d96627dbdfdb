// The generated decoders of the file that uses every construct.
#include "every_random.h"
#include "fuzz/generated.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return rpcrdma::fuzz::decode_input(data, size, [](auto visit) { ::every::visit_types(visit); });
}
