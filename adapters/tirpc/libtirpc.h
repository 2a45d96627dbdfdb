// libtirpc's own functions behind those that take their place.
#ifndef RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_
#define RPCRDMA_ADAPTERS_TIRPC_LIBTIRPC_H_

#include <dlfcn.h>

namespace rpcrdma::tirpc {

// Returns libntirpc, nfs-ganesha's library; null: the process does not have it. It has functions of
// these names too, for structures of its own, and its programs find ours in front of them. Its
// functions are then those behind ours, although libtirpc's may come first among all objects.
inline void* ntirpc() noexcept {
  static void* const handle = []() -> void* {
    void* const of_its_own = ::dlsym(RTLD_DEFAULT, "clnt_ncreate_timed");
    Dl_info info{};
    if (of_its_own == nullptr || ::dladdr(of_its_own, &info) == 0) return nullptr;
    return ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}
inline bool has_ntirpc() noexcept {
  return ntirpc() != nullptr;
}

// Finds libtirpc's function of this name. By its version: glibc still has functions of these names
// for old programs.
template <class Function>
Function* libtirpc(const char* name) noexcept {
  void* found = has_ntirpc() ? ::dlsym(ntirpc(), name) : ::dlvsym(RTLD_NEXT, name, "TIRPC_0.3.0");
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
