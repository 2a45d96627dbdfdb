// Everything that a server of NFS version 3 consists of: exports, what keeps their files, and the
// two programs.
//
//   nfs::ExporterOptions options;
//   options.exports = {nfs::parse_export("/srv/data:rw,all_squash").value()};
//   auto exporter = nfs::Exporter::open(std::move(options));
//   auto server = rpcrdma::Server::listen("rdma://0.0.0.0:20049", nfs::Exporter::server_options());
//   exporter->add_to(*server);
#ifndef RPCRDMA_NFS_EXPORTER_H_
#define RPCRDMA_NFS_EXPORTER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nfs/events.h"
#include "nfs/export_table.h"
#include "nfs/exports.h"
#include "nfs/lock_service.h"
#include "nfs/mount_service.h"
#include "nfs/posix/file_system.h"
#include "nfs/readiness.h"
#include "nfs/service.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "rpcrdma/server.h"

namespace files {
class Workers;
}

namespace nfs {

struct ExporterOptions {
  std::vector<Export> exports;
  // The protection that calls need for exports without one of their own. Any but kSys takes
  // rpcrdma::Server::secure().
  std::vector<rpcrdma::Protection> security{rpcrdma::Protection::kSys};
  // The key of handles, made if it is not there: with the same key, clients go on after a restart.
  // Empty: a new key for each Exporter.
  std::string key_path{};
  // Tables of handles, where they are needed, are files beside the key; without it, in memory.
  posix::HandleKind handles = posix::HandleKind::kAny;
  // Threads that wait for the disks of an export on behalf of a host, at most. Four times as many
  // wait for all hosts: an export that hangs takes none of another's, and a host none of others.
  std::size_t workers = 16;
  std::size_t waiting_max = 4096;  // calls that wait for one of them; with more, clients ask again
  // Clients whose calls have waited so long for a thread ask again as well. CephFS: ten seconds.
  std::chrono::seconds patience{10};
  std::size_t open_files_max = 1024;  // kept open beyond the calls that use them, of all exports
  bool is_async = false;              // changes of names are answered before they are on the disk
  // Told, from any thread, what happens later that whoever runs it should know. May be empty.
  std::function<void(const std::string&)> report{};
  // Takes notes of what is no trouble, from any thread, each second perhaps. May be empty.
  std::function<void(const std::string&)> inform{};
  // Takes mounts, refusals and errors of the storage (events.h). May be empty.
  ReportEvent report_event{};
};

class Exporter {
 public:
  // The text says what is wrong, and with which export.
  static rpcrdma::Expected<std::unique_ptr<Exporter>, std::string> open(ExporterOptions options);
  ~Exporter();  // behind the server
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Raises limits of a server to the minimum for READs and WRITEs of the full size.
  static void make_room_in(rpcrdma::ServerOptions& options);
  rpcrdma::Expected<void, rpcrdma::Error> add_to(rpcrdma::Server& server);
  // Waits for the calls that are with back ends: their answers need the server. Call between the
  // end of Server::run() and the server's. False: some wait for another machine that does not
  // answer, and the process has to leave by _exit(2). Its patience with each back end counts from
  // `begun`, for callers that have waited for something else since.
  bool stop(
      std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now()) noexcept;
  const ExportTable& exports() const noexcept { return table_; }
  // Replaces the exports while the server runs: calls that come from now on follow these rules, and
  // handles of exports that are gone are stale. One thread at a time may call it; it waits for the
  // storage of new exports. Returns notes for the administrator; an error says what is wrong, and
  // leaves everything as it was.
  rpcrdma::Expected<std::vector<std::string>, std::string> set_exports(std::vector<Export> exports);
  // Returns the errors of NFS that were answered so far; from any thread.
  std::vector<StatusCount> errors() const { return nfs_.errors(); }
  Readiness& readiness() noexcept { return readiness_; }
  // Notes for the administrator, a sentence each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  Exporter(const HandleKey& key, ExporterOptions options);
  using OpenedFiles = rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string>;
  // `exports`: their number, among which open files are shared.
  OpenedFiles open_here(const ServedExport& served, std::size_t exports,
                        std::vector<std::string>& notes);
  OpenedFiles open_elsewhere(const ServedExport& served, std::size_t exports) const;
  // An export that was opened, and is not complete in the table yet.
  struct Opened {
    ServedExport* served;
    std::unique_ptr<FileSystem> files;
  };
  // Adds to `fresh` what it has to open.
  rpcrdma::Expected<ServedExport*, std::string> opened(const Export& wanted, std::size_t exports,
                                                       std::vector<std::string>& notes,
                                                       std::vector<Opened>& fresh);
  void forget(std::vector<Opened> fresh);
  // Divides the files that may stay open among the exports of the list.
  void share_open_files();

  ExporterOptions options_;      // without its exports
  Readiness readiness_{table_};  // first: it outlives the files
  ExportTable table_;
  std::vector<std::string> notes_;
  NfsService nfs_;
  MountService mount_;
  LockService locks_;
  // Has one thread, which waits for nothing. Last: it uses the rest.
  std::unique_ptr<files::Workers> chores_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORTER_H_
