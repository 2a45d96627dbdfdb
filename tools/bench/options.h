// The options of `rpcrdma bench`, for the command, which documents them, and the program that
// measures.
#ifndef RPCRDMA_TOOLS_BENCH_OPTIONS_H_
#define RPCRDMA_TOOLS_BENCH_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/options.h"

namespace rpcrdma::tools::bench {

struct Settings {
  bool json = false;
  bool list = false;
  bool is_verbose = false;
  double seconds = 1;
  int rounds = 7;
  std::vector<std::string> cases;
  std::string cpu = "same";
  std::string crc = "both";
  std::string provider = "auto";
  std::string address = "127.0.0.1";
  std::string transport = "rdma";
  std::string url;  // of a server that is there already
  std::size_t idle = 0;
  std::size_t connections = 0;
  std::string beside;
  std::uint32_t threads = 1;
};

// Adds the options and the footer. `settings` lives as long as `command`.
void add_options(Command& command, Settings& settings);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_OPTIONS_H_
