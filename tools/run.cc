// `rpcrdma run`: starts a program of libtirpc's with the adapter in front of that.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/plug_in.h"

namespace rpcrdma::tools {
namespace {

struct RunSettings {
  bool prefers_rdma = false, is_rdma_only = false, prints = false;
  std::string listen, provider, crc, rpcbind;
  std::uint32_t reply_max = 0, call_max = 0;
  std::uint64_t memory_max = 0, connections_max = 0;
  std::vector<std::string> tables;
  std::vector<std::string> words;  // the program and its arguments
};

using Variables = std::vector<std::pair<const char*, std::string>>;

#ifdef RPCRDMA_TIRPC_ADAPTER
std::string adapter_path() {
  std::string path = tirpc_adapter();
  if (!path.empty()) return path;
  fail(kFailed, "librpcrdma-tirpc.so.0 is not beside this command; install librpcrdma-tirpc");
}
#else
std::string adapter_path() {
  fail(kFailed, "this build has no librpcrdma-tirpc; install libtirpc-dev, and build again");
}
#endif

// ld.so would pass over one that it does not find, and the program would run without.
std::string table_path(const std::string& table) {
  std::string path = std::filesystem::absolute(table).string();
  if (::access(path.c_str(), R_OK) != 0) {
    fail(kFailed, fmt::format("cannot read the table {}: {}", table, std::strerror(errno)));
  }
  if (path.find_first_of(" :") != std::string::npos) {
    fail(kFailed, fmt::format("the table {} has a space or a colon in its path, where LD_PRELOAD "
                              "ends; move it to another place",
                              path));
  }
  return path;
}

Variables variables_of(const RunSettings& settings) {
  std::string preloaded;
  const auto preload = [&](const std::string& path) {
    if (!preloaded.empty()) preloaded += ':';
    preloaded += path;
  };
  // Tables go in front of the adapter, whose functions they call; objects that somebody else has
  // preloaded stay behind it.
  for (const std::string& each : settings.tables) preload(table_path(each));
  preload(adapter_path());
  if (const char* const before = std::getenv("LD_PRELOAD")) preload(before);
  Variables made = {{"LD_PRELOAD", preloaded}};
  if (settings.prefers_rdma) made.emplace_back("RPCRDMA_TIRPC_MODE", "prefer-rdma");
  if (settings.is_rdma_only) made.emplace_back("RPCRDMA_TIRPC_MODE", "rdma-only");
  const std::array<std::pair<const char*, std::string>, 4> texts = {
      {{"RPCRDMA_TIRPC_LISTEN", settings.listen},
       {"RPCRDMA_TIRPC_PROVIDER", settings.provider},
       {"RPCRDMA_TIRPC_CRC", settings.crc},
       {"RPCRDMA_TIRPC_RPCBIND", settings.rpcbind}}};
  for (const auto& each : texts) {
    if (!each.second.empty()) made.push_back(each);
  }
  const std::array<std::pair<const char*, std::uint64_t>, 4> numbers = {
      {{"RPCRDMA_TIRPC_REPLY_MAX", settings.reply_max},
       {"RPCRDMA_TIRPC_CALL_MAX", settings.call_max},
       {"RPCRDMA_TIRPC_MEMORY_MAX", settings.memory_max},
       {"RPCRDMA_TIRPC_CONNECTIONS_MAX", settings.connections_max}}};
  for (const auto& [name, number] : numbers) {
    if (number != 0) made.emplace_back(name, std::to_string(number));
  }
  return made;
}

// A server takes three descriptors for each connection, and libtirpc looks at the limit before the
// adapter can raise it.
void raise_descriptor_limit() {
  constexpr rlim_t kWanted = 65'536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, kWanted);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

void run(RunSettings& settings) {
  const Variables variables = variables_of(settings);
  if (settings.prints) {
    for (const auto& [name, value] : variables) fmt::print("{}={}\n", name, value);
    return;
  }
  if (settings.words.empty()) {
    fail(kUsage, "run takes a program: rpcrdma run [OPTION…] -- PROGRAM [ARGUMENT…]");
  }
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
  raise_descriptor_limit();
  std::vector<char*> arguments;
  for (std::string& word : settings.words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  fail(kFailed, fmt::format("cannot start {}: {}", settings.words.front(), std::strerror(errno)));
}

}  // namespace

void add_run(Command& program) {
  Command& command =
      program.add_subcommand("run", "start a program that uses libtirpc, unchanged, over RDMA");
  RunSettings& settings = command.on_call(run);
  constexpr std::uint32_t kMessageMax = 16U << 20U;
  constexpr std::uint64_t kMemoryMin = 1U << 20U, kMemoryMax = std::uint64_t{1} << 50U;
  command.add({
      {"--prefer-rdma", &settings.prefers_rdma,
       "clients that ask for tcp or udp use RDMA where rpcbind knows the program there; servers "
       "serve over both. By default only the netids rdma and rdma6 do"},
      {"--rdma-only",
       &settings.is_rdma_only,
       "clients that ask for tcp or udp use RDMA or fail; programs are not registered for TCP and "
       "UDP",
       {.excludes = "--prefer-rdma"}},
      {"--listen", &settings.listen,
       "where a server listens: ADDR:PORT, of which port 0 takes a free one (default: 0.0.0.0:0)"},
      {"--provider",
       &settings.provider,
       "RDMA back end: verbs (RDMA devices), siwarp (iWARP over TCP), or auto: verbs if a device "
       "leads to the address, else siwarp (default: auto)",
       {.choices = "auto|siwarp|verbs"}},
      {"--crc",
       &settings.crc,
       "MPA CRC32C; it is on when either side wants it (default: on)",
       {.choices = "on|off"}},
      {"--reply-max",
       &settings.reply_max,
       "the longest reply, bytes; a client has so much memory for each call (default: 1088k)",
       {.range = {1024U, kMessageMax}, .takes_units = true, .hides_default = true}},
      {"--call-max",
       &settings.call_max,
       "the longest call, bytes (default: 1088k)",
       {.range = {1024U, kMessageMax}, .takes_units = true, .hides_default = true}},
      {"--memory-max",
       &settings.memory_max,
       "memory of all calls and replies, bytes (default: 512 MiB)",
       {.range = {kMemoryMin, kMemoryMax}, .takes_units = true, .hides_default = true}},
      {"--connections-max",
       &settings.connections_max,
       "connections of a server (default: 4096)",
       {.range = {std::uint64_t{1}, std::uint64_t{1} << 20U}, .hides_default = true}},
      {"--rpcbind-daemon", &settings.rpcbind,
       "where rpcbind of this machine is: a socket's path or ADDR:PORT"},
      {"--table",
       &settings.tables,
       "shared object with tables of rpcrdma-gen --tirpc-table, for direct placement; several: "
       "--table A --table B",
       {.type = "FILE"}},
      {"--print", &settings.prints,
       "print the variables of the environment, one a line, and start nothing"},
      {"program",
       &settings.words,
       "the program and its arguments, behind --",
       {.least_values = 1, .most_values = kMany}},
  });
}

}  // namespace rpcrdma::tools
