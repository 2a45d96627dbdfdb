#include "tests/gen/c_codec.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

#if RPCRDMA_TIRPC
#include <rpc/types.h>
#include <rpc/xdr.h>
#endif

namespace rpcrdma::gen_test {

#if RPCRDMA_TIRPC

CCodecs::CCodecs(const std::string& path)
    : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) reason_ = ::dlerror();
}
CCodecs::~CCodecs() {
  if (library_ != nullptr) ::dlclose(library_);
}

const CCodecs::Codec* CCodecs::find(std::string_view name) const {
  return ::dlsym(library_, ("xdr_" + std::string(name)).c_str());
}

std::optional<std::vector<std::byte>> CCodecs::decode_and_encode(const Codec* codec,
                                                                 Bytes bytes) const {
  using Function = bool_t (*)(XDR*, void*);
  const auto function = reinterpret_cast<Function>(const_cast<void*>(codec));
  alignas(16) static std::array<std::byte, 1U << 20U> value;  // larger than every type
  value.fill(std::byte{0});
  XDR in{};
  // Not written to: the stream is for decoding.
  xdrmem_create(&in, const_cast<char*>(reinterpret_cast<const char*>(bytes.data())),
                static_cast<unsigned>(bytes.size()), XDR_DECODE);
  std::optional<std::vector<std::byte>> again;
  if (function(&in, value.data()) && xdr_getpos(&in) == bytes.size()) {
    again.emplace(bytes.size());
    XDR out{};
    xdrmem_create(&out, reinterpret_cast<char*>(again->data()),
                  static_cast<unsigned>(again->size()), XDR_ENCODE);
    if (!function(&out, value.data()) || xdr_getpos(&out) != again->size()) again.reset();
  }
  xdr_free(reinterpret_cast<xdrproc_t>(function), value.data());
  return again;
}

#else

CCodecs::CCodecs(const std::string&)
    : reason_("rpcgen or libtirpc is not installed (Debian: rpcsvc-proto, libtirpc-dev)") {}
CCodecs::~CCodecs() = default;
const CCodecs::Codec* CCodecs::find(std::string_view) const {
  return nullptr;
}
std::optional<std::vector<std::byte>> CCodecs::decode_and_encode(const Codec*, Bytes) const {
  return std::nullopt;
}

#endif

}  // namespace rpcrdma::gen_test
