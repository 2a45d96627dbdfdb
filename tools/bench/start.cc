// `rpcrdma bench`: starts the program that measures, in this process, with the same options.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>

#include "tools/bench/options.h"
#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

// Only in builds without sanitizers, whose figures would be about the sanitizer.
#ifdef RPCRDMA_BENCH_HELPER
// The places of the helper in this build and in an installation, relative to the command's
// directory.
constexpr const char* kHelper = RPCRDMA_BENCH_HELPER;
#else
constexpr const char* kHelper = nullptr;
#endif

struct BenchSettings {
  const Command* command = nullptr;
  bench::Settings options;  // of which the help tells; the program reads them itself
};

void start_bench(BenchSettings& settings) {
  if (kHelper == nullptr) {
    fail(kFailed,
         "this build has no benchmark, since it has a sanitizer, which would be what is measured; "
         "use a release build (make build)");
  }
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(kFailed, fmt::format("cannot read /proc/self/exe: {}", error.message()));
  std::string path = (own.parent_path() / kHelper).lexically_normal();
  std::vector<std::string> words = settings.command->given();
  words.insert(words.begin(), path);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  fail(kFailed, fmt::format("cannot start {}: {}; build it (make build), or install rpcrdma again",
                            path, std::strerror(errno)));
}

}  // namespace

void add_bench(Command& program) {
  Command& command =
      program.add_subcommand("bench", "measure calls on this machine, next to bare TCP");
  BenchSettings& settings = command.on_call(start_bench);
  settings.command = &command;
  bench::add_options(command, settings.options);
}

}  // namespace rpcrdma::tools
