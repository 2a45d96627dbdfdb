#include "nfs/exporter.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "files/workers.h"
#include "nfs/plug_in.h"

namespace nfs {
namespace {

using rpcrdma::Unexpected;

constexpr std::chrono::seconds kPeriodOfChores{1};
constexpr std::chrono::seconds kLast{1};           // to end an export, whatever the others took
constexpr std::uint32_t kMessageMax = 64U << 10U;  // bytes of a call or a reply beside its data

// State that outlives the process is kept beside the key.
std::string state_path(const std::string& key_path, std::uint64_t fsid, const char* form) {
  if (key_path.empty()) return {};
  return std::filesystem::path(key_path).replace_filename(fmt::format(fmt::runtime(form), fsid));
}

// Returns the share of one of these exports: all may be in use at once.
std::size_t open_files_max(const ExporterOptions& options, std::size_t exports) {
  return std::max<std::size_t>(options.open_files_max / std::max<std::size_t>(exports, 1), 16);
}

using Tell = std::function<void(const std::string&)>;

// Returns a function that puts the name of an export before each report.
Tell named(const Tell& tell, const std::string& name) {
  if (!tell) return {};
  return [tell, name](const std::string& what) { tell(fmt::format("{}: {}", name, what)); };
}

}  // namespace

Exporter::Exporter(const HandleKey& key, ExporterOptions options)
    : options_(std::move(options)), table_(key), nfs_(table_), mount_(table_) {
  mount_.set_report(options_.report_event);
  nfs_.set_report(options_.report_event);
}
Exporter::~Exporter() = default;

bool Exporter::stop(std::chrono::steady_clock::time_point begun) noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{5};
  // Nothing ends calls behind this any more, whose answers would find no server.
  bool all = chores_->stop(std::max(begun + kPatience, Clock::now() + kLast));
  for (const ServedExport* each : table_.opened()) {
    // An export that took its time leaves some to the next.
    const auto until = std::max(begun + each->files->patience_at_end(), Clock::now() + kLast);
    all = each->files->stop(until) && all;
  }
  return all;
}

Exporter::OpenedFiles Exporter::open_here(const ServedExport& served, std::size_t exports,
                                          std::vector<std::string>& notes) {
  const ExporterOptions& options = options_;
  posix::Options settings;
  settings.fsid = export_id(served.made.name, {});
  settings.open_files_max = open_files_max(options, exports);
  settings.workers = options.workers;
  settings.waiting_max = options.waiting_max;
  settings.patience = options.patience;
  settings.is_async = options.is_async && !served.made.is_sync;
  settings.handles = options.handles;
  settings.inform = named(options.inform, served.made.name);
  settings.table_path = state_path(options.key_path, settings.fsid, "handles-{:08x}.db");
  std::string why_table;
  auto files = posix::open_directory(served.made.directory, settings, served.handles, why_table);
  if (!why_table.empty()) {
    notes.push_back(fmt::format(
        "{}: {}; so file locations are kept in {}, and what is moved on this machine itself is "
        "stale for clients until they look it up again",
        served.made.name, why_table, settings.table_path.empty() ? "memory" : settings.table_path));
  }
  return files;
}

Exporter::OpenedFiles Exporter::open_elsewhere(const ServedExport& served,
                                               std::size_t exports) const {
  const ExporterOptions& options = options_;
  BackEndSettings settings;
  const std::string name = back_end_of(served.made.directory, settings.path);
  const auto fail = [&](const std::string& what) {
    return Unexpected<std::string>(served.made.directory + ": " + what);
  };
  auto back_end = load_back_end(name);
  if (!back_end) return fail(back_end.error());
  settings.options = served.made.settings;
  settings.fsid = export_id(served.made.name, {});
  settings.state_path = state_path(options.key_path, settings.fsid, "gateway-{:08x}");
  settings.workers = options.workers;
  settings.waiting_max = options.waiting_max;
  settings.open_files_max = open_files_max(options, exports);
  settings.is_async = options.is_async && !served.made.is_sync;
  settings.report = named(options.report, served.made.name);
  auto files = (*back_end)->open(settings, served.handles);
  if (!files) return fail(files.error());
  return files;
}

rpcrdma::Expected<std::unique_ptr<Exporter>, std::string> Exporter::open(ExporterOptions options) {
  auto key = options.key_path.empty() ? HandleKey::random() : HandleKey::load(options.key_path);
  if (!key) return Unexpected<std::string>(key.error());
  std::unique_ptr<Exporter> made(new Exporter(*key, std::move(options)));
  auto notes = made->set_exports(std::exchange(made->options_.exports, {}));
  if (!notes) return Unexpected<std::string>(std::move(notes.error()));
  made->notes_ = std::move(*notes);
  made->chores_ = std::make_unique<files::Workers>(files::Workers::Settings{});
  made->chores_->every(kPeriodOfChores, [&table = made->table_] {
    for (const ServedExport* each : table.opened()) each->files->do_chores();
  });
  return made;
}

rpcrdma::Expected<std::vector<std::string>, std::string> Exporter::set_exports(
    std::vector<Export> exports) {
  if (std::string problem = problem_with_names(exports); !problem.empty()) {
    return Unexpected<std::string>(std::move(problem));
  }
  std::vector<std::string> notes;
  std::vector<ExportList::Entry> entries;
  std::vector<Opened> fresh;
  const std::size_t count = exports.size();
  for (Export& each : exports) {
    for (ExportClient& client : each.clients) {
      if (client.rules.security.empty()) client.rules.security = options_.security;
    }
    auto served = opened(each, count, notes, fresh);
    if (!served) {
      forget(std::move(fresh));
      return Unexpected<std::string>(std::move(served.error()));
    }
    entries.push_back({std::move(each), *served});
  }
  // A name is bound to its directory from here on, and not by a list that could not be served.
  for (Opened& each : fresh) table_.complete(*each.served, std::move(each.files));
  auto list = ExportList::make(std::move(entries));
  if (!list) return Unexpected<std::string>(std::move(list.error()));
  table_.publish(std::move(*list));
  share_open_files();
  return notes;
}

// Exports that are gone keep nothing open but their directory: what others remove there is gone.
void Exporter::share_open_files() {
  const std::vector<ServedExport*> published = table_.read([](const ExportList& exports) {
    std::vector<ServedExport*> all;
    for (const ExportList::Entry& each : exports.all()) all.push_back(each.served);
    return all;
  });
  const std::size_t share = open_files_max(options_, published.size());
  for (ServedExport* const each : table_.opened()) {
    each->files->set_open_files_max(std::ranges::count(published, each) > 0 ? share : 0);
  }
}

// Takes back exports that no call can have seen.
void Exporter::forget(std::vector<Opened> fresh) {
  for (; !fresh.empty(); fresh.pop_back()) {
    // A back end that cannot be stopped is left as it is.
    FileSystem* const files = fresh.back().files.release();
    if (files->stop(std::chrono::steady_clock::now())) delete files;
    table_.forget_last();
  }
}

// A name stays with its directory as long as the process: tables of handles go by names.
rpcrdma::Expected<ServedExport*, std::string> Exporter::opened(const Export& wanted,
                                                               std::size_t exports,
                                                               std::vector<std::string>& notes,
                                                               std::vector<Opened>& fresh) {
  for (ServedExport* const each : table_.opened()) {
    const Export& made = each->made;
    if (made.name != wanted.name) continue;
    if (made.directory == wanted.directory && made.settings == wanted.settings &&
        made.is_sync == wanted.is_sync) {
      if (each->files->has_been_replaced()) {
        notes.push_back(fmt::format(
            "{}: {} is another directory now than the one that is served; a restart serves it",
            made.name, made.directory));
      }
      return each;
    }
    return Unexpected<std::string>(fmt::format(
        "'{}' is exported already, of {}; its directory, its sync and the options of its back end "
        "change with a restart, its clients and their rules at any time",
        made.name, made.directory));
  }
  ServedExport& served = table_.add(wanted);
  std::string path;
  auto files = back_end_of(wanted.directory, path).empty() ? open_here(served, exports, notes)
                                                           : open_elsewhere(served, exports);
  if (!files) {
    table_.forget_last();
    return Unexpected<std::string>("cannot export " + files.error());
  }
  fresh.push_back({&served, std::move(*files)});
  return &served;
}

void Exporter::make_room_in(rpcrdma::ServerOptions& options) {
  options.bulk_size_max = std::max(options.bulk_size_max, kServerTransferMax);
  constexpr std::uint32_t kLongest = kServerTransferMax + kMessageMax;
  options.long_call_size_max = std::max(options.long_call_size_max, kLongest);
  options.tcp.record_size_max =
      std::max<decltype(options.tcp.record_size_max)>(options.tcp.record_size_max, kLongest);
}

rpcrdma::Expected<void, rpcrdma::Error> Exporter::add_to(rpcrdma::Server& server) {
  if (auto added = server.add(nfs3::NFS_V3_Binding::kProgram, nfs3::NFS_V3_Binding::kVersion, nfs_);
      !added) {
    return added;
  }
  if (auto added = server.add(mount3::MOUNT_V3_Service::kProgram,
                              mount3::MOUNT_V3_Service::kVersion, mount_);
      !added) {
    return added;
  }
  return server.add(nlm4::NLM_V4_Service::kProgram, nlm4::NLM_V4_Service::kVersion, locks_);
}

}  // namespace nfs
