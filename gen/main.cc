// rpcrdma-gen: reads a .x file, writes C++.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gen/compiler.h"
#include "gen/names.h"
#include "rpcrdma/version.h"

namespace {

enum ExitCode : int { kSuccess = 0, kFailed = 1, kUsage = 2 };

// Leaves a file that says the same already, so that builds do not start over.
bool write(const std::filesystem::path& path, const std::string& text) {
  if (std::ifstream old(path, std::ios::binary); old) {
    const std::string was{std::istreambuf_iterator<char>(old), std::istreambuf_iterator<char>()};
    if (was == text) return true;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file.fail()) return true;
  fmt::print(stderr, "rpcrdma-gen: {} cannot be written\n", path.string());
  return false;
}

int run(const std::string& input, const std::filesystem::path& folder,
        rpcrdma::gen::CompileOptions options) {
  std::ifstream file(input, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    fmt::print(stderr, "rpcrdma-gen: {} cannot be read\n", input);
    return kFailed;
  }
  options.name = input;
  const auto made = rpcrdma::gen::compile(text, options);
  fmt::print(stderr, "{}", made.messages);
  if (!made.ok) return kFailed;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const bool written = write(folder / (made.stem + ".h"), made.header) &&
                       write(folder / (made.stem + ".cc"), made.source) &&
                       (!options.random || write(folder / (made.stem + "_random.h"), made.random));
  return written ? kSuccess : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Typed C++ from a .x file: types, codecs with every bound checked.", "rpcrdma-gen"};
  app.set_version_flag("--version", std::string("rpcrdma-gen ") + rpcrdma::kLibraryVersion);
  std::string input, folder = ".";
  rpcrdma::gen::CompileOptions options;
  app.add_option("FILE", input, "the interface, in the XDR and RPC languages (NAME.x)")->required();
  app.add_option("-o,--output", folder, "where NAME.h and NAME.cc go")->capture_default_str();
  app.add_option("--namespace", options.namespace_name, "of what is made; default: NAME");
  app.add_flag("--random", options.random, "write NAME_random.h too: random values, for tests");
  app.footer("Exit status: 0 success, 1 the file has errors, 2 wrong usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  }
  if (!options.namespace_name.empty() && !rpcrdma::gen::is_namespace(options.namespace_name)) {
    fmt::print(stderr, "rpcrdma-gen: '{}' is no name for a namespace\n", options.namespace_name);
    return kUsage;
  }
  return run(input, folder, std::move(options));
}
