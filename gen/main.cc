// rpcrdma-gen: reads a .x file, writes C++.
#include <fmt/core.h>
#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gen/compiler.h"
#include "gen/letters.h"
#include "gen/lexer.h"
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

std::optional<std::string> content_of(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return file ? std::optional(std::move(text)) : std::nullopt;
}

struct Settings {
  std::string folder = ".";
  std::string depfile;
  std::vector<std::filesystem::path> included_from;  // -I
  bool extras_only = false;
  rpcrdma::gen::CompileOptions options;
  std::map<std::string, std::string> names;  // of files, by their canonical paths
};

std::optional<rpcrdma::gen::Included> find_included(Settings& settings, std::string_view from,
                                                    std::string_view path, bool in_quotes) {
  std::vector<std::filesystem::path> folders;
  if (in_quotes) folders.push_back(std::filesystem::path(from).parent_path());
  folders.insert(folders.end(), settings.included_from.begin(), settings.included_from.end());
  for (const std::filesystem::path& each : folders) {
    const std::filesystem::path at = (each / path).lexically_normal();
    auto text = content_of(at);
    if (!text) continue;
    // A file has the name by which it was found first, however its path is written later.
    std::error_code error;
    const auto identity = std::filesystem::weakly_canonical(at, error).string();
    const auto name = settings.names.try_emplace(identity, at.string()).first;
    return rpcrdma::gen::Included{name->second, std::move(*text)};
  }
  return std::nullopt;
}

// Returns the dependencies as make and ninja read them. "NAME.d" is of NAME.
std::string depfile_of(std::string target, const std::string& input,
                       const std::vector<std::string>& included) {
  if (target.ends_with(".d")) target.resize(target.size() - 2);
  const auto escaped = [](const std::string& path) {
    std::string text;
    for (const char c : path) {
      if (c == ' ' || c == '#' || c == '\\') text += '\\';
      text += c;
      if (c == '$') text += '$';
    }
    return text;
  };
  std::string text = escaped(target) + ": " + escaped(input);
  for (const std::string& each : included) text += " \\\n  " + escaped(each);
  return text + "\n";
}

int run(const std::string& input, Settings& settings) {
  const std::filesystem::path folder = settings.folder;
  const bool extras_only = settings.extras_only;
  const auto text = content_of(input);
  if (!text) {
    fmt::print(stderr, "rpcrdma-gen: {} cannot be read\n", input);
    return kFailed;
  }
  settings.options.name = input;
  std::error_code unknown;
  settings.names[std::filesystem::weakly_canonical(input, unknown).string()] = input;
  settings.options.find_included = [&](std::string_view from, std::string_view path,
                                       bool in_quotes) {
    return find_included(settings, from, path, in_quotes);
  };
  const auto made = rpcrdma::gen::compile(*text, settings.options);
  fmt::print(stderr, "{}", made.messages);
  if (!made.ok) return kFailed;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto save = [&](const char* suffix, const std::string& content) {
    return write(folder / (made.stem + suffix), content);
  };
  const bool saved = (extras_only || !made.tirpc.empty() ||
                      (save(".h", made.header) && save(".cc", made.source))) &&
                     (made.tirpc.empty() || save("_tirpc.c", made.tirpc)) &&
                     (made.fields.empty() || save("_fields.h", made.fields)) &&
                     (made.random.empty() || save("_random.h", made.random)) &&
                     (settings.depfile.empty() ||
                      write(settings.depfile, depfile_of(settings.depfile, input, made.included)));
  return saved ? kSuccess : kFailed;
}

constexpr const char* kHelp =
    "Typed C++ from a .x file: types, codecs with every bound checked.\n"
    "\n"
    "usage: rpcrdma-gen [OPTIONS] FILE\n"
    "\n"
    "  FILE                  the interface, in the XDR and RPC languages (NAME.x)\n"
    "  -o, --output DIR      where NAME.h and NAME.cc are written (default: .); of time.x, and\n"
    "                        others that are called like a header of C, time_.h and time_.cc\n"
    "  -I DIR                where files that are included are, beside the one that includes them\n"
    "  -D NAME[=NUMBER]      as #define NAME NUMBER in the first line: what a C header has for "
    "rpcgen\n"
    "      --import FILE     as #include \"FILE\" in the first line: the types and constants of "
    "FILE.x\n"
    "      --depfile FILE.d  write to FILE.d what FILE depends on, as make reads it\n"
    "      --namespace NAME  the namespace of the code, A or A::B (default: NAME of the file)\n"
    "      --fields          write NAME_fields.h too: to_string(), == and visits of the members\n"
    "      --random          write NAME_random.h too: random values of each type, for tests;\n"
    "                        implies --fields\n"
    "      --tirpc-table     write NAME_tirpc.c alone: the data that RDMA places directly, for\n"
    "                        programs of rpcgen's that run with librpcrdma-tirpc\n"
    "      --extras-only     write no NAME.h and NAME.cc, which another folder has\n"
    "      --version         print the version\n"
    "  -h, --help            print this\n"
    "\n"
    "Exit status: 0 success, 1 the file has errors, 2 wrong usage.\n";

bool is_definition(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  rpcrdma::gen::Integer number;
  return !name.empty() && rpcrdma::gen::is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), rpcrdma::gen::is_word) &&
         (equals == std::string_view::npos ||
          rpcrdma::gen::parse_integer(text.substr(equals + 1), number));
}

int wrong_usage(const std::string& text) {
  fmt::print(stderr, "rpcrdma-gen: {}; rpcrdma-gen --help lists the options\n", text);
  return kUsage;
}

// Output may be lost: the disk is full, or nobody reads the pipe.
int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return kSuccess;
  fmt::print(stderr, "rpcrdma-gen: standard output cannot be written\n");
  return kFailed;
}

enum : int {
  kNamespace = 256,
  kFields,
  kRandom,
  kExtrasOnly,
  kVersion,
  kImport,
  kDepfile,
  kTirpcTable
};
const option kOptions[] = {
    {"output", required_argument, nullptr, 'o'},
    {"namespace", required_argument, nullptr, kNamespace},
    {"fields", no_argument, nullptr, kFields},
    {"random", no_argument, nullptr, kRandom},
    {"extras-only", no_argument, nullptr, kExtrasOnly},
    {"tirpc-table", no_argument, nullptr, kTirpcTable},
    {"import", required_argument, nullptr, kImport},
    {"depfile", required_argument, nullptr, kDepfile},
    {"version", no_argument, nullptr, kVersion},
    {"help", no_argument, nullptr, 'h'},
    {nullptr, 0, nullptr, 0},
};

// Returns the exit status if the program ends with the options.
std::optional<int> parse(int argc, char** argv, Settings& settings) {
  rpcrdma::gen::CompileOptions& options = settings.options;
  opterr = 0;  // the messages are ours
  for (int found; (found = ::getopt_long(argc, argv, ":o:I:D:h", kOptions, nullptr)) != -1;) {
    switch (found) {
      case 'o':
        settings.folder = optarg;
        break;
      case 'I':
        settings.included_from.emplace_back(optarg);
        break;
      case 'D':
        if (!is_definition(optarg)) {
          return wrong_usage(fmt::format("-D {}: expected NAME or NAME=NUMBER", optarg));
        }
        options.definitions.emplace_back(optarg);
        break;
      case kImport:
        options.imports.emplace_back(optarg);
        break;
      case kDepfile:
        settings.depfile = optarg;
        break;
      case kNamespace:
        options.namespace_name = optarg;
        break;
      case kFields:
        options.fields = true;
        break;
      case kRandom:
        options.random = true;
        break;
      case kTirpcTable:
        options.tirpc_table = true;
        break;
      case kExtrasOnly:
        settings.extras_only = true;
        break;
      case kVersion:
        return print(fmt::format("rpcrdma-gen {}\n", rpcrdma::kLibraryVersion));
      case 'h':
        return print(kHelp);
      case ':':
        return wrong_usage(fmt::format("{} needs a value", argv[optind - 1]));
      default:
        return wrong_usage(fmt::format("there is no option {}", optopt > 0 && optopt < kNamespace
                                                                    ? fmt::format("-{:c}", optopt)
                                                                    : argv[optind - 1]));
    }
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (const auto status = parse(argc, argv, settings)) return *status;
  const rpcrdma::gen::CompileOptions& options = settings.options;
  if (argc - optind != 1) {
    return wrong_usage(fmt::format("one FILE is needed, not {}", argc - optind));
  }
  if (!options.namespace_name.empty() && !rpcrdma::gen::is_namespace(options.namespace_name)) {
    return wrong_usage(fmt::format("'{}' is no name for a namespace", options.namespace_name));
  }
  if (settings.extras_only && !options.fields && !options.random) {
    return wrong_usage("--extras-only needs --fields or --random");
  }
  if (options.tirpc_table &&
      (options.fields || options.random || !options.namespace_name.empty())) {
    return wrong_usage("--tirpc-table goes with no option for C++");
  }
  return run(argv[optind], settings);
}
