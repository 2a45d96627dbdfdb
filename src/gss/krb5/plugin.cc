#include "gss/krb5/plugin.h"

#include "gss/krb5/mechanism.h"

namespace rpcrdma::gss::krb5 {
namespace {

class PluginOfThisBuild final : public Plugin {
 public:
  std::unique_ptr<Mechanism> make(const Kerberos& settings) override {
    return krb5::make(settings);
  }
};

}  // namespace
}  // namespace rpcrdma::gss::krb5

extern "C" __attribute__((visibility("default"))) rpcrdma::gss::krb5::Plugin* rpcrdma_krb5_plugin(
    const char* build) {
  namespace krb5 = rpcrdma::gss::krb5;
  static krb5::PluginOfThisBuild plugin;
  return build == krb5::plugin_build() ? &plugin : nullptr;
}
