// The same calls by libnfs, with its raw interface, which copies least.
//
// usage: nfs_bench_libnfs PORT MOUNT_PORT EXPORT read|write|getattr|lookup DEPTH SECONDS
#include <nfsc/libnfs.h>
// Behind the one above, whose types they use.
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/nfs/cases.h"

namespace {

using nfs_bench::Case;
using nfs_bench::kBlock;

[[noreturn]] void fail(const char* what) {
  (void)std::fprintf(stderr, "libnfs: %s\n", what);
  std::exit(1);
}

struct Bench {
  rpc_context* rpc;
  nfs_bench::Options options;
  nfs_fh3 file, root;
  nfs_bench::Meter meter;
  std::vector<char> block = std::vector<char>(kBlock, 'x');
  std::uint64_t next = 0;
  unsigned active = 0;

  void begin();
  void end(int status, void* data);
};

void ended(rpc_context* /*rpc*/, int status, void* data, void* bench) {
  static_cast<Bench*>(bench)->end(status, data);
}

void Bench::begin() {
  const std::uint64_t offset = next++ * kBlock % nfs_bench::kFileSize;
  int result = 0;
  switch (options.which) {
    case Case::kRead: {
      READ3args args{file, offset, kBlock};
      result = rpc_nfs3_read_async(rpc, ended, &args, this);
      break;
    }
    case Case::kWrite: {
      WRITE3args args{file, offset, kBlock, UNSTABLE, {kBlock, block.data()}};
      result = rpc_nfs3_write_async(rpc, ended, &args, this);
      break;
    }
    case Case::kGetattr: {
      GETATTR3args args{file};
      result = rpc_nfs3_getattr_async(rpc, ended, &args, this);
      break;
    }
    case Case::kLookup: {
      std::string name = nfs_bench::kName;
      LOOKUP3args args{{root, name.data()}};
      result = rpc_nfs3_lookup_async(rpc, ended, &args, this);
      break;
    }
  }
  if (result != 0) fail("a call cannot be made");
  ++active;
}

void Bench::end(int status, void* data) {
  if (status != RPC_STATUS_SUCCESS) fail("a call has failed");
  // The status is the first field of each of these results.
  if (*static_cast<nfsstat3*>(data) != NFS3_OK) fail("the server answers with an error");
  if (options.which == Case::kRead &&
      static_cast<READ3res*>(data)->READ3res_u.resok.count != kBlock) {
    fail("the server gave less than a block");
  }
  if (options.which == Case::kWrite &&
      static_cast<WRITE3res*>(data)->WRITE3res_u.resok.count != kBlock) {
    fail("the server took less than a block");
  }
  --active;
  meter.count();
  if (!meter.is_over()) begin();
}

// A call outside of the measurement; `take` looks at its result.
template <class Take>
struct Once {
  Take take;
  bool done = false;

  static void ended(rpc_context* /*rpc*/, int status, void* data, void* self) {
    auto& once = *static_cast<Once*>(self);
    if (status != RPC_STATUS_SUCCESS) fail("the server does not answer");
    once.take(data);
    once.done = true;
  }
};

void serve(rpc_context* rpc) {
  pollfd events{rpc_get_fd(rpc), static_cast<short>(rpc_which_events(rpc)), 0};
  if (::poll(&events, 1, 1000) < 0 || rpc_service(rpc, events.revents) < 0) {
    fail(rpc_get_error(rpc));
  }
}

template <class Begin, class Take>
void once(rpc_context* rpc, Begin begin, Take take) {
  Once<Take> call{take};
  if (begin(&Once<Take>::ended, &call) != 0) fail(rpc_get_error(rpc));
  while (!call.done) serve(rpc);
}

rpc_context* connected(int port, int program, int version) {
  rpc_context* const rpc = rpc_init_context();
  once(
      rpc,
      [&](rpc_cb done, void* data) {
        return rpc_connect_port_async(rpc, "127.0.0.1", port, program, version, done, data);
      },
      [](void* /*data*/) {});
  return rpc;
}

nfs_fh3 copied(u_int size, const char* bytes) {
  auto* const kept = new char[size];  // as long as the program runs
  std::copy_n(bytes, size, kept);
  return {{size, kept}};
}

nfs_fh3 mounted(int port, char* name) {
  rpc_context* const rpc = connected(port, MOUNT_PROGRAM, MOUNT_V3);
  nfs_fh3 root{};
  once(
      rpc, [&](rpc_cb done, void* data) { return rpc_mount3_mnt_async(rpc, done, name, data); },
      [&](void* data) {
        const auto& result = *static_cast<mountres3*>(data);
        if (result.fhs_status != MNT3_OK) fail("the export cannot be mounted");
        const auto& handle = result.mountres3_u.mountinfo.fhandle;
        root = copied(handle.fhandle3_len, handle.fhandle3_val);
      });
  rpc_destroy_context(rpc);
  return root;
}

nfs_fh3 looked_up(rpc_context* rpc, const nfs_fh3& root) {
  std::string name = nfs_bench::kName;
  nfs_fh3 file{};
  once(
      rpc,
      [&](rpc_cb done, void* data) {
        LOOKUP3args args{{root, name.data()}};
        return rpc_nfs3_lookup_async(rpc, done, &args, data);
      },
      [&](void* data) {
        const auto& result = *static_cast<LOOKUP3res*>(data);
        if (result.status != NFS3_OK) fail("there is no file of the bench");
        const auto& handle = result.LOOKUP3res_u.resok.object.data;
        file = copied(handle.data_len, handle.data_val);
      });
  return file;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    (void)std::fputs(
        "usage: nfs_bench_libnfs PORT MOUNT_PORT EXPORT "
        "read|write|getattr|lookup DEPTH SECONDS\n",
        stderr);
    return 2;
  }
  const auto options = nfs_bench::parse(arguments[4], arguments[5], arguments[6]);
  const nfs_fh3 root = mounted(std::atoi(arguments[2]), arguments[3]);
  rpc_context* const rpc = connected(std::atoi(arguments[1]), NFS_PROGRAM, NFS_V3);
  Bench bench{rpc, options, looked_up(rpc, root), root, nfs_bench::Meter(options.seconds)};
  for (unsigned i = 0; i < options.depth; ++i) bench.begin();
  while (bench.active > 0) serve(rpc);
  bench.meter.print();
}
