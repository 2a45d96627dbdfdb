#include "nfs/exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "nfs/posix/workers.h"

namespace nfs {
namespace {

using rpcrdma::Unexpected;

constexpr std::uint32_t kMessageMax = 64U << 10U;  // bytes of a call or a reply beside its data

// Beside the key, so that both outlast the process in one place.
std::string table_path(const std::string& key_path, std::uint64_t fsid) {
  if (key_path.empty()) return {};
  return std::filesystem::path(key_path).replace_filename(fmt::format("handles-{:08x}.db", fsid));
}

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
    settings.fsid = export_id(served.rules.name, {});
    settings.open_files_max = std::max<std::size_t>(share, 16);
    settings.is_async = options.is_async;
    settings.handles = options.handles;
    settings.table_path = table_path(options.key_path, settings.fsid);
    std::string why_table;
    auto files = posix::open_directory(served.rules.directory, settings, served.handles,
                                       *made->workers_, why_table);
    if (!files) return Unexpected<std::string>("cannot export " + files.error());
    if (!why_table.empty()) {
      made->notes_.push_back(fmt::format(
          "{}: {}; so file locations are kept in {}, and what is moved on this machine itself is "
          "stale for clients until they look it up again",
          served.rules.name, why_table,
          settings.table_path.empty() ? "memory" : settings.table_path));
    }
    auto complete = made->table_.complete(served, std::move(*files));
    if (!complete) return Unexpected<std::string>(complete.error());
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
