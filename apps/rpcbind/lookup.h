// Finds a program over RDMA or TCP by asking its host's rpcbind over TCP (RFC 5666 §10, the other
// way is service.h).
#ifndef RPCRDMA_RPCBIND_LOOKUP_H_
#define RPCRDMA_RPCBIND_LOOKUP_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "rpcbind/daemon.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpcbinding {

struct LookupOptions {
  Over over = Over::kRdma;
  std::uint16_t port = kRpcbindPort;  // of rpcbind
  // Where this version is not registered, takes the address of another one, as rpcbind itself does
  // (RPCBPROC_GETADDR): the server then says which versions it has.
  bool takes_other_versions = false;
  DaemonOptions daemon;
};

// The URL of the program, rdma:// or tcp://. `host`: a name, an IPv4 address, or an IPv6 address
// with or without brackets. A program that listens on every address of its host is at `host`.
//
// kUnreachable, kTimedOut: there is no rpcbind to ask. kNotAvailable: it knows no such program over
// that transport, or only on the loopback of its host. kBadReply: its answer is nonsense.
Expected<std::string, Error> lookup(std::string_view host, std::uint32_t program,
                                    std::uint32_t version, const LookupOptions& options = {});

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_LOOKUP_H_
