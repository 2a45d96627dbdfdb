#include "tools/command.h"

namespace rpcrdma::tools {

// A build without libfuse3 says so where the command would be.
void add_mount(Command& program) {
  struct Nothing {
    std::vector<std::string> words;
  };
  Command& command = program.add_subcommand(
      "mount", "make an export of an NFS server a directory here (not in this build)");
  auto& settings = command.on_call(+[](Nothing& /*settings*/) {
    fail(kUsage, "this build has no mount: build it with libfuse3-dev");
  });
  command.add(
      {{"WORDS", &settings.words, "URL and DIR", {.least_values = 0, .most_values = kMany}}});
}

}  // namespace rpcrdma::tools
