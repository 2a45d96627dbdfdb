// The interface of the shared object with Kerberos 5 to the process that has loaded it.
#ifndef RPCRDMA_GSS_KRB5_PLUGIN_H_
#define RPCRDMA_GSS_KRB5_PLUGIN_H_

#include <fmt/core.h>

#include <memory>
#include <string>

#include "rpcrdma/gss.h"
#include "rpcrdma/version.h"

namespace rpcrdma::gss::krb5 {

class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual std::unique_ptr<Mechanism> make(const Kerberos& settings) = 0;
};

// Both sides are built together: classes with virtual functions go from one to the other.
inline std::string plugin_build() {
  // Raise this with each change of Mechanism, Context or Kerberos.
  constexpr int kInterface = 1;
  return fmt::format("{}, {}, {} {}", kLibraryVersion, __VERSION__, kInterface, sizeof(Kerberos));
}

inline constexpr const char* kPluginSymbol = "rpcrdma_krb5_plugin";
// Null when the build is another one. The object lives as long as the process.
using PluginEntry = Plugin* (*)(const char* build);

}  // namespace rpcrdma::gss::krb5

#endif  // RPCRDMA_GSS_KRB5_PLUGIN_H_
