// The figures of a server as text, in the format that Prometheus scrapes. `rpcrdma top` and `stat`
// read the same text, from a socket.
#ifndef RPCRDMA_TOOLS_METRICS_H_
#define RPCRDMA_TOOLS_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nfs/status_counters.h"
#include "rpcrdma/statistics.h"

namespace rpcrdma::tools {

// The figures of the process, beside those of the library.
struct ProcessFigures {
  std::string provider;
  double uptime_s = 0;
  std::uint64_t memory_pinned = 0;  // by devices (VmPin) or locked (VmLck), bytes

  // Reads those of this process, but for the first two.
  static ProcessFigures read();
};

inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Returns the text with one line for each figure: `rpcrdma_NAME{label="…"} VALUE`. Times are in
// seconds. `errors` are those of NFS, which calls have that succeeded for RPC. Figures of single
// connections follow if there are any; they are not for Prometheus, where each peer would be a
// series of its own.
std::string metrics_text(const ServerStatistics& statistics, const ProcessFigures& process,
                         const std::vector<nfs::StatusCount>& errors);

// Returns a line for each counter, "NAME  VALUE", under the same names.
std::vector<std::string> counter_lines(const TransferCounters& counters);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_METRICS_H_
