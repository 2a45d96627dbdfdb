// Runs a fuzz target over stored inputs: the files named on the command line, all files in the
// folders named there, and all members of the archives (*.tar) named there. For compilers without
// libFuzzer, and for `make check`. One program has all targets, whose headers are mostly the same.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

struct Replay {
  const rpcrdma::fuzz::Target& target;
  bool is_verbose = false;
  std::size_t runs = 0;

  void run(const std::string& name, std::string_view content) {
    if (is_verbose) std::fprintf(stderr, "replay: %s\n", name.c_str());
    // A block of just this size, so that a sanitizer sees a read behind it.
    const std::vector<std::uint8_t> input(content.begin(), content.end());
    target.run(input.data(), input.size());
    ++runs;
  }
};

// Returns the number that a field of a tar header has in octal digits.
std::optional<std::size_t> octal(std::string_view field) {
  std::size_t value = 0;
  const std::string_view digits = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<std::size_t>(digit - '0');
  }
  return digits.empty() ? std::nullopt : std::optional(value);
}

// Runs the members of a tar archive; returns why it is not a whole one, null if it is.
const char* run_members(Replay& replay, const std::string& path, std::string_view archive) {
  constexpr std::size_t kBlock = 512, kSumAt = 148;
  const bool is_empty = archive.empty();
  while (archive.size() >= kBlock) {
    const std::string_view header = archive.substr(0, kBlock);
    archive.remove_prefix(kBlock);
    if (header.find_first_not_of('\0') == std::string_view::npos) {
      const bool is_end =
          archive.size() >= kBlock && archive.find_first_not_of('\0') == std::string_view::npos;
      return is_end ? nullptr : "it does not end in two empty blocks";
    }
    // The sum of all bytes, with spaces in the place of the sum itself.
    std::size_t sum = 8 * ' ';
    for (std::size_t i = 0; i < kBlock; ++i) {
      if (i < kSumAt || i >= kSumAt + 8) sum += static_cast<unsigned char>(header[i]);
    }
    const auto size = octal(header.substr(124, 12));
    if (octal(header.substr(kSumAt, 8)) != sum || !size) return "a header is damaged";
    if (header[156] != '0') return "a member is not a regular file";
    if (*size > archive.size()) return "it ends within a member";
    const std::string_view member = header.substr(0, header.substr(0, 100).find('\0'));
    replay.run(path + "/" + std::string(member), archive.substr(0, *size));
    archive.remove_prefix(std::min((*size + kBlock - 1) / kBlock * kBlock, archive.size()));
  }
  return is_empty ? "it is empty" : "it ends without its two empty blocks";
}

std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Returns what prevents the file or archive from being replayed, null if nothing does.
const char* run_file(Replay& replay, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "it cannot be read";
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (path.extension() == ".tar") {
    const std::size_t before = replay.runs;
    const char* const why = run_members(replay, path.string(), content);
    return why == nullptr && replay.runs == before ? "it has no members" : why;
  }
  replay.run(path.string(), content);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  using rpcrdma::fuzz::Target;
  const Target* target = Target::first();
  while (target != nullptr && (argc < 2 || std::string_view(argv[1]) != target->name))
    target = target->next;
  if (target == nullptr) {
    std::fprintf(stderr,
                 "replay: usage: %s TARGET [-v] FILE|FOLDER|ARCHIVE.tar...; targets:", argv[0]);
    for (target = Target::first(); target != nullptr; target = target->next)
      std::fprintf(stderr, " %s", target->name);
    std::fputc('\n', stderr);
    return 1;
  }
  Replay replay{*target};
  replay.is_verbose = argc > 2 && std::string_view(argv[2]) == "-v";
  for (int i = replay.is_verbose ? 3 : 2; i < argc; ++i) {
    std::error_code error;
    if (!fs::exists(argv[i], error)) {
      std::fprintf(stderr, "replay: %s is not there\n", argv[i]);
      return 1;
    }
    for (const fs::path& path : files_of(argv[i])) {
      if (const char* const why = run_file(replay, path)) {
        std::fprintf(stderr, "replay: %s: %s\n", path.c_str(), why);
        return 1;
      }
    }
  }
  // A corpus that was lost must not pass for a corpus without findings.
  if (replay.runs == 0) {
    std::fprintf(stderr, "replay: no inputs (usage: %s TARGET [-v] FILE|FOLDER|ARCHIVE.tar...)\n",
                 argv[0]);
    return 1;
  }
  std::printf("replay: %zu inputs, no finding\n", replay.runs);
  return 0;
}
