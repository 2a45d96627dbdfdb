// The contenders of a benchmark: each has a server in a process of its own, and runs the client
// here.
#ifndef RPCRDMA_TOOLS_BENCH_CONTENDER_H_
#define RPCRDMA_TOOLS_BENCH_CONTENDER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/child.h"

namespace rpcrdma::tools::bench {

using Nanoseconds = std::chrono::nanoseconds;

constexpr std::size_t kConnectionsOfAProcess = 4000;  // a client has four descriptors

// Places the two processes of a contender.
struct Layout {
  std::optional<int> client_cpu, server_cpu;  // nullopt: wherever the system puts them
  // For rpcrdma only: the address that its server listens at, and the provider.
  std::string address = "127.0.0.1", provider = "auto";
  std::string transport = "rdma";
  std::string server_url;       // a server that is there already, perhaps elsewhere; empty: none
  std::uint32_t threads = 1;    // of the server
  std::size_t idle = 0;         // connections that rest beside those that are measured
  std::size_t connections = 0;  // that are measured, beside the case's own one
  int depth_max = 1;            // of all cases
  bool is_verbose = false;      // says on stderr what was negotiated
};

// The work of an RDMA device; all 0 without one, except for registrations.
struct DeviceCosts {
  std::uint64_t doorbells = 0, completions = 0, registrations = 0;
};

// The result of one run of a case; sums over both processes.
struct Sample {
  std::uint64_t calls = 0;
  double seconds = 0;
  std::uint64_t latencies = 0;  // that were recorded
  double p50_us = 0, p99_us = 0;
  double cpu_seconds = 0;         // of both processes, and of the load's
  double server_cpu_seconds = 0;  // of them
  std::uint64_t server_rss_kib = 0;
  // The calls of a load beside the case, and the CPU time of its clients.
  std::uint64_t load_calls = 0;
  double load_cpu_seconds = 0;
  // The same load alone, and the CPU time of a call of the case alone, both processes.
  double load_alone_calls_per_s = 0, load_alone_cpu_per_call = 0, alone_cpu_per_call = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t allocations = 0;   // by operator new
  std::uint64_t bytes_copied = 0;  // by our own code, from one user buffer to another
  DeviceCosts client, server;      // of rpcrdma
};

// The length of a run: it warms up before it counts, and then counts. The time alone says little on
// a busy machine, where it may pass before the server has run at all.
struct Times {
  Nanoseconds warm_up, measure;
  std::uint32_t warm_up_calls;  // at least
};

class Contender {
 public:
  virtual ~Contender() = default;
  // Processes of clients.
  using Load = std::vector<std::unique_ptr<Child>>;
  // Connects, runs the case and disconnects, beside a load or none. Throws std::runtime_error when
  // something fails or data arrives wrong: such a run has no figures.
  virtual Sample run(const Case& what, const Times& times, const Load& load) = 0;
  // A case on connections of other processes, until they are destroyed. Empty: this contender
  // cannot.
  virtual Load start_load(const Case& /*what*/, std::size_t /*connections*/) { return {}; }
  // Null: it is on another machine.
  virtual const Child* server() const = 0;
};

std::unique_ptr<Contender> make_rpcrdma(const Layout& layout);
std::unique_ptr<Contender> make_raw(const Layout& layout);
// Null when the command was built without libtirpc.
std::unique_ptr<Contender> make_tirpc(const Layout& layout);
bool have_tirpc() noexcept;

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_CONTENDER_H_
