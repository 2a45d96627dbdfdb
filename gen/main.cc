// rpcrdma-gen: reads a .x file, writes C++.
#include <fmt/core.h>
#include <getopt.h>

#include <cstdio>
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
        rpcrdma::gen::CompileOptions options, bool extras_only) {
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
  const auto save = [&](const char* suffix, const std::string& content) {
    return write(folder / (made.stem + suffix), content);
  };
  const bool saved = (extras_only || (save(".h", made.header) && save(".cc", made.source))) &&
                     (made.fields.empty() || save("_fields.h", made.fields)) &&
                     (made.random.empty() || save("_random.h", made.random));
  return saved ? kSuccess : kFailed;
}

constexpr const char* kHelp =
    "Typed C++ from a .x file: types, codecs with every bound checked.\n"
    "\n"
    "usage: rpcrdma-gen [OPTIONS] FILE\n"
    "\n"
    "  FILE                  the interface, in the XDR and RPC languages (NAME.x)\n"
    "  -o, --output DIR      where NAME.h and NAME.cc are written (default: .)\n"
    "      --namespace NAME  the namespace of the code, A or A::B (default: NAME of the file)\n"
    "      --fields          write NAME_fields.h too: to_string(), == and visits of the members\n"
    "      --random          write NAME_random.h too: random values of each type, for tests;\n"
    "                        implies --fields\n"
    "      --extras-only     write no NAME.h and NAME.cc, which another folder has\n"
    "      --version         print the version\n"
    "  -h, --help            print this\n"
    "\n"
    "Exit status: 0 success, 1 the file has errors, 2 wrong usage.\n";

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

}  // namespace

int main(int argc, char** argv) {
  enum : int { kNamespace = 256, kFields, kRandom, kExtrasOnly, kVersion };
  static const option kOptions[] = {
      {"output", required_argument, nullptr, 'o'},
      {"namespace", required_argument, nullptr, kNamespace},
      {"fields", no_argument, nullptr, kFields},
      {"random", no_argument, nullptr, kRandom},
      {"extras-only", no_argument, nullptr, kExtrasOnly},
      {"version", no_argument, nullptr, kVersion},
      {"help", no_argument, nullptr, 'h'},
      {nullptr, 0, nullptr, 0},
  };
  std::string folder = ".";
  rpcrdma::gen::CompileOptions options;
  bool extras_only = false;
  opterr = 0;  // the messages are ours
  for (int found; (found = ::getopt_long(argc, argv, ":o:h", kOptions, nullptr)) != -1;) {
    switch (found) {
      case 'o':
        folder = optarg;
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
      case kExtrasOnly:
        extras_only = true;
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
  if (argc - optind != 1) {
    return wrong_usage(fmt::format("one FILE is needed, not {}", argc - optind));
  }
  if (!options.namespace_name.empty() && !rpcrdma::gen::is_namespace(options.namespace_name)) {
    return wrong_usage(fmt::format("'{}' is no name for a namespace", options.namespace_name));
  }
  if (extras_only && !options.fields && !options.random) {
    return wrong_usage("--extras-only needs --fields or --random");
  }
  return run(argv[optind], folder, std::move(options), extras_only);
}
