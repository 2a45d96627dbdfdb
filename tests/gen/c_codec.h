// rpcgen's C code for a .x file, in a library of its own, since the names of several clash.
#ifndef RPCRDMA_TESTS_GEN_C_CODEC_H_
#define RPCRDMA_TESTS_GEN_C_CODEC_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::gen_test {

class CCodecs {
 public:
  using Codec = void;  // a bool_t (*)(XDR *, void *), as dlsym() gives it

  explicit CCodecs(const std::string& path);
  ~CCodecs();
  CCodecs(const CCodecs&) = delete;
  CCodecs& operator=(const CCodecs&) = delete;

  // Why there is none; empty: there is.
  const std::string& reason() const { return reason_; }
  // xdr_NAME; null when rpcgen made none.
  const Codec* find(std::string_view name) const;
  // The value that C finds in the bytes, as C encodes it; nullopt when it finds none, or does not
  // use all bytes.
  std::optional<std::vector<std::byte>> decode_and_encode(const Codec* codec, Bytes bytes) const;

 private:
  void* library_ = nullptr;
  std::string reason_;
};

}  // namespace rpcrdma::gen_test

#endif  // RPCRDMA_TESTS_GEN_C_CODEC_H_
