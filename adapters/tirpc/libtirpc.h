// libtirpc's own functions behind those that take their place.
#ifndef RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_
#define RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_

#include <dlfcn.h>

namespace rpcrdma::tirpc {

// Returns whether the process has libntirpc, nfs-ganesha's library. It has functions of these names
// too, for structures of its own, and its programs find ours in front of them.
inline bool has_ntirpc() noexcept {
  static const bool has = ::dlsym(RTLD_DEFAULT, "clnt_ncreate_timed") != nullptr;
  return has;
}

// Finds libtirpc's function of this name. By its version: glibc still has functions of these names
// for old programs.
template <class Function>
Function* libtirpc(const char* name) noexcept {
  void* found = has_ntirpc() ? nullptr : ::dlvsym(RTLD_NEXT, name, "TIRPC_0.3.0");
  if (found == nullptr) found = ::dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(found);
}

}  // namespace rpcrdma::tirpc

// The function behind the one that this stands in; it is looked up once.
#define RPCRDMA_LIBTIRPC(name)                                                                  \
  ([] {                                                                                         \
    static auto* const found_in_libtirpc = ::rpcrdma::tirpc::libtirpc<decltype(::name)>(#name); \
    return found_in_libtirpc;                                                                   \
  }())

#define RPCRDMA_TIRPC_EXPORT __attribute__((visibility("default")))

#endif  // RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_
