// Two clients of an NFSv4.1 server that are in each other's way, so that the server has to call the
// first one back over its own connection (RFC 8167).
#ifndef RPCRDMA_TESTS_INTEROP_NFS41_PROBE_H_
#define RPCRDMA_TESTS_INTEROP_NFS41_PROBE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "interop/nfs41/callbacks.h"
#include "rpcrdma/options.h"

namespace rpcrdma::interop {

struct ProbeSettings {
  std::string url;
  std::vector<std::string> paths;  // below the server's root, each of a file that nobody has open
  std::chrono::milliseconds patience{30'000};  // for a delegation, and for its recall
  ClientOptions options;  // a capture is of the connection with the back channel
};

struct ProbeReport {
  std::string provider;
  std::uint32_t opens_for_read = 0;  // the server may give the delegation later than at the first
  std::uint32_t delays = 0;          // NFS4ERR_DELAY for the OPEN for writing
  Callbacks::Counts callbacks;
  // The longest times from the first OPEN for writing until its file was ...
  double recalled_ms = 0, returned_ms = 0, opened_ms = 0;
};

// For each file: the first client opens it for reading and gets a delegation; the second one opens
// it for writing and has to wait; the server recalls the delegation by CB_SEQUENCE and CB_RECALL;
// the first client answers and returns it; then the second one's OPEN succeeds. Throws Failed
// (interop/nfs41/client.h) unless all of this happens, and nothing else.
ProbeReport probe(const ProbeSettings& settings);

}  // namespace rpcrdma::interop

#endif  // RPCRDMA_TESTS_INTEROP_NFS41_PROBE_H_
