// The providers and RDMA devices of this machine.
#ifndef RPCRDMA_PROVIDERS_H_
#define RPCRDMA_PROVIDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rpcrdma/export.h"

namespace rpcrdma {

// An RDMA device as the provider "verbs" sees it.
struct DeviceFacts {
  std::string name;                    // as `rdma link` shows it
  std::string transport;               // "iWARP", "RoCE" or "InfiniBand"
  std::string registration;            // how it exposes memory, unless ProviderOptions override it
  std::vector<std::string> addresses;  // numeric IP addresses that it serves
  std::uint32_t reads_max = 0;         // concurrent RDMA Reads per connection
  std::uint32_t slices_max = 0;        // pieces of memory in one message
  std::uint32_t shared_receives = 0;   // Receives in a shared queue; 0: it has no shared queue
  bool takes_invalidation = false;     // flag R of RFC 8797: a peer may invalidate handles
  std::string caution;                 // what it does not keep a peer from; empty: nothing known
  std::string problem;                 // why it cannot be used now and what to do; empty: usable
};

struct ProviderFacts {
  std::string name;  // what ProviderOptions::name takes
  bool is_available = false;
  bool is_installed = true;  // false: its shared object cannot be loaded, whatever the devices
  std::string what;          // one line
  std::string problem;       // why it is not available and what to do; empty: available
  std::vector<DeviceFacts> devices;  // of verbs
};

// Checks what is available now; loads the provider "verbs" if not yet loaded. Callable from any
// thread.
RPCRDMA_EXPORT std::vector<ProviderFacts> providers();

}  // namespace rpcrdma

#endif  // RPCRDMA_PROVIDERS_H_
