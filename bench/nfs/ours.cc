// Makes calls of our NFS client, DEPTH of them at a time.
//
// usage: nfs_bench_ours URL crc|no-crc read|write|getattr|lookup DEPTH SECONDS
#include <memory>
#include <string_view>
#include <vector>

#include "bench/nfs/cases.h"
#include "nfs/client/mounted.h"

namespace {

using nfs_bench::Case;
using nfs_bench::kBlock;
using rpcrdma::Task;

template <class T>
T must(nfs::Result<T> result) {
  if (result) return std::move(*result);
  (void)std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}

// One call behind the other, until the time is over; the next lane has the next block.
Task<void> lane(nfs::Mounted& server, nfs_bench::Options options, nfs::Node file,
                nfs_bench::Meter& meter, std::uint64_t& next) {
  std::vector<std::byte> memory(kBlock);
  const auto registered = server.connections().use_memory(memory);
  while (!meter.is_over()) {
    const std::uint64_t offset = next++ * kBlock % nfs_bench::kFileSize;
    bool is_whole = true;
    switch (options.which) {
      case Case::kRead:
        is_whole = must(co_await server.read(file.handle, offset, memory)).count == kBlock;
        break;
      case Case::kWrite:
        is_whole = must(co_await server.write(file.handle, offset, memory)).count == kBlock;
        break;
      case Case::kGetattr:
        (void)must(co_await server.attributes(file.handle));
        break;
      case Case::kLookup:
        (void)must(co_await server.look_up(server.root(), nfs_bench::kName));
        break;
    }
    if (!is_whole) {
      (void)std::fputs("the server gave or took less than a block\n", stderr);
      std::exit(1);
    }
    meter.count();
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    (void)std::fputs(
        "usage: nfs_bench_ours URL crc|no-crc read|write|getattr|lookup DEPTH SECONDS\n", stderr);
    return 2;
  }
  const auto options = nfs_bench::parse(arguments[3], arguments[4], arguments[5]);
  nfs::MountOptions mount;
  mount.client.provider.name = "siwarp";
  mount.client.provider.crc = std::string_view(arguments[2]) == "crc";
  mount.credential.emplace().machine_name = "bench";
  const auto server = must(nfs::Mounted::open(nfs::parse_nfs_url(arguments[1]).value(), mount));
  const nfs::Node file = must(server->wait_for(server->look_up_path(nfs_bench::kName)));
  nfs_bench::Meter meter(options.seconds);
  std::uint64_t next = 0;
  std::vector<Task<void>> lanes;
  for (unsigned i = 0; i < options.depth; ++i) {
    lanes.push_back(lane(*server, options, file, meter, next));
    lanes.back().start();
  }
  for (const Task<void>& each : lanes) {
    while (!each.done()) {
      server->connections().wait();
      server->connections().progress();
    }
  }
  meter.print();
}
