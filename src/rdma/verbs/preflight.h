// Finds reasons that prevent the use of RDMA devices here, and reports them with the remedy.
#ifndef RPCRDMA_RDMA_VERBS_PREFLIGHT_H_
#define RPCRDMA_RDMA_VERBS_PREFLIGHT_H_

#include <infiniband/verbs.h>

#include <string>
#include <string_view>
#include <vector>

#include "rdma/verbs/options.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rdma::verbs {

// Error::operation of what preflight knows a remedy for.
inline constexpr std::string_view kEntering = "using RDMA devices";
inline constexpr std::string_view kOpeningManager = "opening the connection manager";
inline constexpr std::string_view kRegisteringMemory = "registering memory with the RDMA device";
inline constexpr std::string_view kOpeningQueue = "opening a queue pair";
inline constexpr std::string_view kNoDeviceOnTheWay =
    "the way to the peer goes over no RDMA device";
inline constexpr std::string_view kBindingAddress = "binding the address to an RDMA device";
inline constexpr std::string_view kDeviceRemoved = "the RDMA device was removed";
inline constexpr std::string_view kForked =
    "this process was forked from one that used RDMA devices already, and shares them with it; "
    "fork before the first use, or call exec";

// Returns what to do about an error of this provider; empty if there is nothing to say.
std::string remedy_for(const Error& error);

std::vector<DeviceFacts> devices(Registration wish);
std::string why_no_device();

// Tries whether the limit of locked memory lets a connection's memory be registered. Returns 0 or
// an errno.
int try_to_register(ibv_context& context);

// See Plugin.
Expected<DeviceChoice, std::string> device_for(std::string_view address, bool to_listen);

// Returns whether the peer can invalidate handles on a connection to, or at, the address. For a
// wildcard: on each device.
bool reports_invalidated_handle(std::string_view address, Registration wish);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_PREFLIGHT_H_
