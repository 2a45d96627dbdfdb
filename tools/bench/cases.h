// The measurements of `rpcrdma bench`: contenders and their cases.
#ifndef RPCRDMA_TOOLS_BENCH_CASES_H_
#define RPCRDMA_TOOLS_BENCH_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rpcrdma::tools::bench {

enum class Who : std::uint8_t {
  kRpcrdma,
  kRaw,    // request and response on a bare TCP socket: the limit
  kTirpc,  // libtirpc over TCP, one call at a time since its stubs block
};

enum class Kind : std::uint8_t {
  kNull,   // no payload
  kRead,   // server to client
  kWrite,  // client to server
};

struct Case {
  std::string name;  // "read_64k_qd8", "raw_64k_qd8", "tirpc_read_64k_qd1"
  Who who = Who::kRpcrdma;
  Kind kind = Kind::kNull;
  std::uint32_t size = 0;  // payload bytes of a call
  int depth = 1;           // calls in flight
  bool crc = false;        // iWARP CRC32C; for rpcrdma only
};

// Cases that share one limit: the raw case of the same payload and depth, and who is held against
// it. They are measured next to each other in time.
struct Group {
  Case raw;
  std::vector<Case> cases;
};

// All cases. Those of libtirpc only where the command was built with it.
std::vector<Group> all_groups();
// Selects the cases whose name is in `names` (all if it is empty), also with other sizes up to 16
// MiB ("read_512_qd8", "write_16m_qd1") and depths up to 1,024 with at most 1 GiB under way, each
// with CRC on, off or both: "on", "off", "both". A group stays if its raw case or one of its cases
// is selected. Puts the names that are no case into `unknown`.
std::vector<Group> select(const std::vector<std::string>& names, const std::string& crc,
                          std::vector<std::string>& unknown);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_CASES_H_
