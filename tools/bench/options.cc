#include "tools/bench/options.h"

namespace rpcrdma::tools::bench {

namespace {

// What is beside the measured connection, and who serves it.
void add_company(CLI::App& command, Settings& settings) {
  CLI::Option* const url = command.add_option(
      "url", settings.url,
      "rdma://HOST[:PORT] of `rpcrdma serve --bench`, on another machine perhaps: measured without "
      "bare TCP beside it");
  command
      .add_option(
          "--idle", settings.idle,
          "connections that rest beside the measured one; each has made 32 NULL calls and a "
          "read of 1 MiB")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  CLI::Option* const connections =
      command
          .add_option(
              "--connections", settings.connections,
              "further connections on which the case is made at the same time, by a process "
              "of their own; latencies are those of the case's own")
          ->check(CLI::Range(0, 100'000))
          ->capture_default_str();
  command
      .add_option(
          "--beside", settings.beside,
          "a case that another process makes all the time, as a load; it is measured alone, "
          "too")
      ->excludes(connections)
      ->excludes(url);  // whose CPU time is not seen while the load is alone
  command.add_option("--threads", settings.threads, "threads of the server")
      ->check(CLI::Range(1, 256))
      ->excludes(url)
      ->capture_default_str();
}

}  // namespace

void add_options(CLI::App& command, Settings& settings) {
  command.add_flag("--json", settings.json,
                   "print the result as JSON: an array, one object a case");
  command.add_option("--seconds", settings.seconds, "seconds of measuring for each case")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command.add_option("--rounds", settings.rounds, "rounds that these seconds are split into")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--cases", settings.cases,
                  "only these, with commas between: those of --list, or with other sizes and "
                  "depths, as read_512_qd16 and write_16m_qd1")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--crc", settings.crc, "measure with iWARP CRC: on, off or both")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  command
      .add_option("--cpu", settings.cpu,
                  "same: both processes on one CPU, which gives the steadiest ratios; spread: on "
                  "two")
      ->check(CLI::IsMember({"same", "spread"}))
      ->capture_default_str();
  command
      .add_option("--provider", settings.provider,
                  "RDMA back end of rpcrdma: verbs, siwarp, or auto: what leads to --address")
      ->check(CLI::IsMember({"auto", "siwarp", "verbs"}))
      ->capture_default_str();
  command
      .add_option("--address", settings.address,
                  "numeric address of this machine that rpcrdma is measured over; for verbs one on "
                  "an RDMA device")
      ->capture_default_str();
  add_company(command, settings);
  command.add_flag("--list", settings.list, "list the cases");
  command.footer(
      "A server process for each contender, the client in this one, loopback\n"
      "unless --address says something else. ratio_to_raw is the\n"
      "rate over that of request and response on bare TCP with the same payload and depth, "
      "measured\n"
      "right before and after. All cases with both CRC settings take about a minute by default.");
}

}  // namespace rpcrdma::tools::bench
