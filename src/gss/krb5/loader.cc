// Loads the shared object with Kerberos 5, so that nothing else needs MIT's library.
#include <dlfcn.h>
#include <fmt/core.h>

#include <string>
#include <utility>

#include "gss/krb5/plugin.h"
#include "posix/shared_object.h"
#include "rpcrdma/gss.h"

namespace rpcrdma::gss {
namespace {

Expected<krb5::Plugin*, std::string> find() {
  const auto object = posix::load_shared_object({"librpcrdma_krb5.so", RPCRDMA_PLUGIN_DIR});
  if (!object && object.error().was_found) {
    return Unexpected<std::string>(
        fmt::format("its part with Kerberos 5 does not load: {}; install Debian's package "
                    "libgssapi-krb5-2 if that is what is missing",
                    object.error().why));
  }
  if (!object) {
    return Unexpected<std::string>(
        RPCRDMA_HAVE_KRB5 != 0
            ? object.error().why
            : std::string("this build has no Kerberos 5, since MIT's library was not there when it "
                          "was configured; install libkrb5-dev and build again"));
  }
  const auto entry =
      reinterpret_cast<krb5::PluginEntry>(dlsym(object->handle, krb5::kPluginSymbol));
  krb5::Plugin* const plugin = entry != nullptr ? entry(krb5::plugin_build().c_str()) : nullptr;
  if (plugin != nullptr) return plugin;
  return Unexpected<std::string>(fmt::format("{} belongs to another build of rpcrdma; this is {}",
                                             object->path, krb5::plugin_build()));
}

}  // namespace

Expected<std::unique_ptr<Mechanism>, Error> make_kerberos(const Kerberos& settings) {
  static const Expected<krb5::Plugin*, std::string> loaded = find();
  if (loaded) return (*loaded)->make(settings);
  return Unexpected<Error>(Error{Errc::kUnsupported, "loading Kerberos 5", "", loaded.error()});
}

}  // namespace rpcrdma::gss
