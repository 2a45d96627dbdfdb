// Runs a fuzz target over stored inputs: the files named on the command line, and all files in the
// folders named there. For compilers without libFuzzer, and for `make check`.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // A block of just this size, so that a sanitizer sees a read behind it.
  const std::vector<std::uint8_t> input(content.begin(), content.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const bool verbose = argc > 1 && std::string(argv[1]) == "-v";
  std::size_t runs = 0;
  for (int i = verbose ? 2 : 1; i < argc; ++i) {
    std::error_code error;
    if (!fs::exists(argv[i], error)) {
      std::fprintf(stderr, "replay: %s is not there\n", argv[i]);
      return 1;
    }
    for (const fs::path& path : files_of(argv[i])) {
      if (verbose) std::fprintf(stderr, "replay: %s\n", path.c_str());
      if (!run(path)) {
        std::fprintf(stderr, "replay: cannot read %s\n", path.c_str());
        return 1;
      }
      ++runs;
    }
  }
  // A corpus that was lost must not pass for a corpus without findings.
  if (runs == 0) {
    std::fprintf(stderr, "replay: no inputs (usage: %s [-v] FILE|FOLDER...)\n", argv[0]);
    return 1;
  }
  std::printf("replay: %zu inputs, no finding\n", runs);
  return 0;
}
