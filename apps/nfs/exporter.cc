#include "nfs/exporter.h"

#include <algorithm>
#include <utility>

#include "nfs/posix/file_system.h"
#include "nfs/posix/workers.h"

namespace nfs {
namespace {

using rpcrdma::Unexpected;

constexpr std::uint32_t kMessageMax = 64U << 10U;  // bytes of a call or a reply beside its data

}  // namespace

Exporter::Exporter(const HandleKey& key) : table_(key), nfs_(table_), mount_(table_) {}
Exporter::~Exporter() = default;

void Exporter::stop() noexcept {
  workers_->stop();
}

rpcrdma::Expected<std::unique_ptr<Exporter>, std::string> Exporter::open(ExporterOptions options) {
  auto key = options.key_path.empty() ? HandleKey::random() : HandleKey::load(options.key_path);
  if (!key) return Unexpected<std::string>(key.error());
  std::unique_ptr<Exporter> made(new Exporter(*key));
  made->workers_ = posix::make_workers(options.workers, options.waiting_max);
  const std::size_t share =
      options.open_files_max / std::max<std::size_t>(options.exports.size(), 1);
  for (Export& each : options.exports) {
    auto added = made->table_.add(std::move(each));
    if (!added) return Unexpected<std::string>(added.error());
    ServedExport& served = **added;
    posix::Options settings;
    settings.fsid = served.id;
    settings.open_files_max = std::max<std::size_t>(share, 16);
    settings.is_async = options.is_async;
    auto files =
        posix::open_directory(served.rules.directory, settings, served.handles, *made->workers_);
    if (!files) return Unexpected<std::string>("cannot export " + files.error());
    served.files = std::move(*files);
  }
  return made;
}

void Exporter::make_room_in(rpcrdma::ServerOptions& options) {
  options.bulk_size_max = std::max(options.bulk_size_max, NfsService::kTransferMax);
  constexpr std::uint32_t kLongest = NfsService::kTransferMax + kMessageMax;
  options.long_call_size_max = std::max(options.long_call_size_max, kLongest);
  options.tcp.record_size_max =
      std::max<decltype(options.tcp.record_size_max)>(options.tcp.record_size_max, kLongest);
}

rpcrdma::Expected<void, rpcrdma::Error> Exporter::add_to(rpcrdma::Server& server) {
  if (auto added = server.add(nfs3::NFS_V3_Service::kProgram, nfs3::NFS_V3_Service::kVersion, nfs_);
      !added) {
    return added;
  }
  return server.add(mount3::MOUNT_V3_Service::kProgram, mount3::MOUNT_V3_Service::kVersion, mount_);
}

}  // namespace nfs
