// Finds out whether an NFSv4.1 server calls its client back over the client's own RDMA connection
// (RFC 8167).
//
//   back_channel_probe rdma://HOST:PORT PATH...
//
// Prints one line of JSON. Exit status: 0 if all happened that interop/nfs41/probe.h names, 1 with
// the step that failed, 2 for wrong usage.
#include <fmt/core.h>

#include <string>

#include "interop/nfs41/client.h"
#include "interop/nfs41/probe.h"
#include "tools/options.h"

namespace rpcrdma::interop {
namespace {

void print(const ProbeReport& report) {
  fmt::print(
      "{{\"provider\": \"{}\", \"opens_for_read\": {}, \"delays\": {}, \"callbacks\": "
      "{{\"CB_COMPOUND\": {}, \"CB_SEQUENCE\": {}, \"CB_RECALL\": {}}}, \"recalled_ms\": {:.1f}, "
      "\"returned_ms\": {:.1f}, \"opened_ms\": {:.1f}}}\n",
      report.provider, report.opens_for_read, report.delays, report.callbacks.compounds,
      report.callbacks.sequences, report.callbacks.recalls, report.recalled_ms, report.returned_ms,
      report.opened_ms);
}

int run(int argc, char** argv) {
  tools::Command command(
      "", "Finds out whether an NFSv4.1 server calls back over its client's RDMA connection");
  ProbeSettings settings;
  std::string crc = "on";
  double patience_s = 30;
  command.add({
      {"url", &settings.url, "rdma://HOST[:PORT]", {.is_required = true}},
      {"path",
       &settings.paths,
       "files below the server's root that nobody has open",
       {.is_required = true}},
      {"--provider",
       &settings.options.provider.name,
       "auto, verbs or siwarp",
       {.choices = "auto|verbs|siwarp"}},
      {"--crc", &crc, "siwarp: MPA CRC", {.choices = "on|off"}},
      {"--capture", &settings.options.provider.capture_file,
       "siwarp: pcapng file of the connection with the back channel"},
      {"--patience",
       &patience_s,
       "seconds to wait for a delegation, and for its recall",
       {.range = {1.0, 600.0}}},
  });
  if (const auto status = command.parse(argc, argv)) return *status;
  settings.options.provider.crc = crc == "on";
  settings.patience = std::chrono::milliseconds(static_cast<long>(patience_s * 1000));
  try {
    print(probe(settings));
    return 0;
  } catch (const Failed& failure) {
    fmt::print(stderr, "back_channel_probe: {}\n", failure.what());
    return 1;
  }
}

}  // namespace
}  // namespace rpcrdma::interop

int main(int argc, char** argv) {
  return rpcrdma::interop::run(argc, argv);
}
