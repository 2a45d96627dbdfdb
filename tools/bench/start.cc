// `rpcrdma bench`: starts the program that measures, in this process, with the same options.
#include <fmt/format.h>
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
// Where this build and an installation have it, from the directory of the command on.
constexpr const char* kHelper = RPCRDMA_BENCH_HELPER;
#else
constexpr const char* kHelper = nullptr;
#endif

// What was said on the command line, in words that mean the same.
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options([](const CLI::Option*) { return true; })) {
    if (option->count() == 0) continue;
    if (option->get_positional()) {
      std::ranges::copy(option->results(), std::back_inserter(words));
      continue;
    }
    words.push_back(option->get_name());
    if (option->get_items_expected_max() == 0) continue;
    words.back() += fmt::format("={}", fmt::join(option->results(), ","));
  }
  return words;
}

[[noreturn]] void start_helper(const CLI::App& command) {
  if (kHelper == nullptr) {
    fail(kFailed,
         "this build has no benchmark, since it has a sanitizer, which would be what is measured; "
         "use a release build (make build)");
  }
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(kFailed, fmt::format("cannot read /proc/self/exe: {}", error.message()));
  std::string path = (own.parent_path() / kHelper).lexically_normal();
  std::vector<std::string> words = words_of(command);
  words.insert(words.begin(), path);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  fail(kFailed, fmt::format("cannot start {}: {}; it belongs to the command: install rpcrdma again",
                            path, std::strerror(errno)));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto settings = std::make_shared<bench::Settings>();
  CLI::App* command =
      app.add_subcommand("bench", "measure calls on this machine, next to bare TCP");
  bench::add_options(*command, *settings);
  command->callback([command, settings] { start_helper(*command); });
}

}  // namespace rpcrdma::tools
