// The options of `rpcrdma serve` for NFS.
#ifndef RPCRDMA_TOOLS_NFS_OPTIONS_H_
#define RPCRDMA_TOOLS_NFS_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/oncrpc.h"
#include "tools/options.h"

namespace rpcrdma::tools {

struct NfsOptions {
  std::vector<std::string> directories;  // DIR[:OPTIONS]
  std::vector<std::string> names;        // of these, in order
  std::string exports_file;
  std::string key_path;         // empty: where such things are kept
  std::string handles = "any";  // what they are
  std::optional<std::uint16_t> tcp_port;
  std::size_t workers = 16;
  std::size_t open_files_max = 4096;
  bool is_async = false;
  bool is_read_only = false;                           // whatever the rules of exports say
  std::vector<Protection> security{Protection::kSys};  // of exports that say nothing

  void add_to(Command& command);
  bool is_wanted() const { return !directories.empty() || !exports_file.empty(); }
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_NFS_OPTIONS_H_
