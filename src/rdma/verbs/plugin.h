// The interface of this provider's shared object to the process that has loaded it.
//
// It is built apart from the library, since it alone needs rdma-core to run; loader.h finds it.
#ifndef RPCRDMA_RDMA_VERBS_PLUGIN_H_
#define RPCRDMA_RDMA_VERBS_PLUGIN_H_

#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rdma/verbs/options.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"
#include "rpcrdma/version.h"

namespace rpcrdma::rdma::verbs {

class Plugin {
 public:
  virtual ~Plugin() = default;
  // Fails with kUnsupported for options out of range, kNoResources if the system refuses
  // descriptors. Reasons against the use of devices show in devices() and device_for().
  virtual Expected<std::unique_ptr<Provider>, Error> make_provider(const Options& options) = 0;
  virtual std::vector<DeviceFacts> devices(Registration wish) = 0;
  virtual std::string why_no_device() = 0;  // and what to do, when devices() is empty
  // The device by which the system reaches the numeric "ADDR:PORT", or that has it as an address of
  // its own; else why there is none, with the remedy. The wildcard address is on each device: one
  // that can be used is preferred.
  virtual Expected<DeviceChoice, std::string> device_for(std::string_view address,
                                                         bool to_listen) = 0;
  // Returns what to do about an error of make_provider(); later errors are Provider::remedy()'s.
  virtual std::string remedy(const Error& error) = 0;
};

// Both sides are built together: classes with virtual functions go from one to the other.
inline std::string plugin_build() {
  // The sizes tell most builds of one version apart.
  return fmt::format("{}, {}, {} {} {} {} {}", kLibraryVersion, __VERSION__, sizeof(work::Request),
                     sizeof(Completion), sizeof(Capabilities), sizeof(Counters), sizeof(Options));
}

inline constexpr const char* kPluginSymbol = "rpcrdma_verbs_plugin";
// Null when the build is another one. The object lives as long as the process.
using PluginEntry = Plugin* (*)(const char* build);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_PLUGIN_H_
