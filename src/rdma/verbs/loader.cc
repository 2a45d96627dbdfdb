#include "rdma/verbs/loader.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "posix/shared_object.h"

namespace rpcrdma::rdma::verbs {
namespace {

Expected<Plugin*, std::string> find() {
  const auto object = posix::load_shared_object({"librpcrdma_verbs.so", RPCRDMA_PLUGIN_DIR});
  if (!object && object.error().was_found) {
    return Unexpected<std::string>(
        fmt::format("the verbs provider does not load: {}; install Debian's packages librdmacm1, "
                    "libibverbs1 and ibverbs-providers if it is one of theirs that is missing",
                    object.error().why));
  }
  if (!object) {
    return Unexpected<std::string>(
        RPCRDMA_HAVE_VERBS != 0
            ? object.error().why
            : std::string("this build has no verbs provider, since rdma-core was not there when it "
                          "was configured; install libibverbs-dev and librdmacm-dev and build "
                          "again"));
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(object->handle, kPluginSymbol));
  Plugin* const plugin = entry != nullptr ? entry(plugin_build().c_str()) : nullptr;
  if (plugin != nullptr) return plugin;
  dlclose(object->handle);
  return Unexpected<std::string>(fmt::format("{} belongs to another build of rpcrdma; this is {}",
                                             object->path, plugin_build()));
}

}  // namespace

Expected<Plugin*, std::string> load() {
  static const Expected<Plugin*, std::string> loaded = find();
  return loaded;
}

}  // namespace rpcrdma::rdma::verbs
