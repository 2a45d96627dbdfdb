// libtirpc's own functions behind those that take their place.
#ifndef RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_
#define RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_

#include <dlfcn.h>

namespace rpcrdma::tirpc {

// Finds libtirpc's function of this name. By its version: glibc still has functions of these names
// for old programs.
template <class Function>
Function* libtirpc(const char* name) noexcept {
  void* found = ::dlvsym(RTLD_NEXT, name, "TIRPC_0.3.0");
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
