#include "tools/bench/options.h"

namespace rpcrdma::tools::bench {

void add_options(Command& command, Settings& settings) {
  command.add({
      {"--json", &settings.json, "print the result as JSON: an array, one object a case"},
      {"-v,--verbose", &settings.is_verbose,
       "say on stderr what each measured connection has negotiated"},
      {"--seconds",
       &settings.seconds,
       "seconds of measuring for each case",
       {.range = {0.001, 3600.0}}},
      {"--rounds",
       &settings.rounds,
       "rounds that these seconds are split into",
       {.range = {1, 1000}}},
      {"--cases",
       &settings.cases,
       "only these, with commas between: those of --list, or with other sizes and depths, as "
       "read_512_qd16 and write_16m_qd1",
       {.separator = ','}},
      {"--crc",
       &settings.crc,
       "measure with iWARP CRC: on, off or both",
       {.choices = "on|off|both"}},
      {"--cpu",
       &settings.cpu,
       "same: both processes on one CPU, which gives the steadiest ratios; spread: on two",
       {.choices = "same|spread"}},
      {"--provider",
       &settings.provider,
       "RDMA back end of rpcrdma: verbs, siwarp, or auto: what leads to --address",
       {.choices = "auto|siwarp|verbs"}},
      {"--address", &settings.address,
       "numeric address of this machine that rpcrdma is measured over; for verbs one on an RDMA "
       "device"},
      {"url",
       &settings.url,
       "rdma://HOST[:PORT] of `rpcrdma serve --bench`, on another machine perhaps: measured "
       "without bare TCP beside it",
       {.excludes = "--address"}},
      {"--transport",
       &settings.transport,
       "the transport of rpcrdma: rdma, or tcp for the same calls at tcp://",
       {.choices = "rdma|tcp", .excludes = "url"}},
      {"--idle",
       &settings.idle,
       "connections that rest beside the measured one; each has made 32 NULL calls and a read of "
       "1 MiB",
       {.range = {0, 1'000'000}}},
      {"--connections",
       &settings.connections,
       "further connections on which the case is made at the same time, by a process of their "
       "own; latencies are those of all connections",
       {.range = {0, 100'000}}},
      // The CPU time of a server elsewhere is not seen while the load is alone.
      {"--beside",
       &settings.beside,
       "a case that another process makes all the time, as a load; it is measured alone, too",
       {.excludes = "--connections|url"}},
      {"--threads",
       &settings.threads,
       "threads of the server",
       {.range = {1, 256}, .excludes = "url"}},
      {"--list", &settings.list, "list the cases"},
  });
  command.set_footer(
      "A server process for each contender, the client in this one, loopback\n"
      "unless --address says something else. ratio_to_raw is the\n"
      "rate over that of request and response on bare TCP with the same payload and depth, "
      "measured\n"
      "right before and after. All cases with both CRC settings take about a minute by default.");
}

}  // namespace rpcrdma::tools::bench
