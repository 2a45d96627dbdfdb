// Reads files of settings in TOML, whose keys are the options of a command. Only settings_file.cc
// includes toml++.
//
//   # /etc/rpcrdma/serve.toml
//   listen = "0.0.0.0"
//   nfs = ["/srv/data:rw,client=192.0.2.0/24"]
//   read-only = false
#ifndef RPCRDMA_TOOLS_SETTINGS_FILE_H_
#define RPCRDMA_TOOLS_SETTINGS_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/expected.h"

namespace rpcrdma::tools {

// A key with its values, in the words of a command line.
struct Setting {
  std::string name;                   // "port", for the option --port
  std::vector<std::string> values{};  // of an array; a single value otherwise
  std::uint32_t line = 0;             // where the file has it, from 1
};

// Returns the settings in the order of the file. Values are strings, numbers, truth values, and
// arrays of these. An error names the line: "line 3: …".
Expected<std::vector<Setting>, std::string> parse_settings(std::string_view text);

// Reads the file, of at most 1 MiB. An error names the file, and the line in it.
Expected<std::vector<Setting>, std::string> read_settings(const std::string& path);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SETTINGS_FILE_H_
