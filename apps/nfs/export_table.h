// The exports that a server has, with what keeps their files. They may change while it runs.
#ifndef RPCRDMA_NFS_EXPORT_TABLE_H_
#define RPCRDMA_NFS_EXPORT_TABLE_H_

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs/exports.h"
#include "nfs/file_system.h"
#include "nfs/handle_seal.h"

namespace nfs {

// An export whose directory is open. It stays as long as the table, since calls may be under way
// when an export is taken back.
struct ServedExport {
  const Export made;  // as it was opened; its rules may have changed since
  ExportId id = 0;
  ExportHandles handles;
  std::unique_ptr<FileSystem> files;
};

// Returns what is wrong with the names of exports: two have the same. Empty: nothing.
std::string problem_with_names(const std::vector<Export>& exports);

// The exports at one time, each with its rules. Never changes once it is published.
class ExportList {
 public:
  struct Entry {
    Export rules;
    ServedExport* served;
  };

  ExportList() = default;
  // Precondition: no two exports have one name. The text says that two have one number, which
  // happens once in four billion.
  static rpcrdma::Expected<ExportList, std::string> make(std::vector<Entry> entries);
  ExportList(ExportList&&) noexcept = default;
  ExportList& operator=(ExportList&&) noexcept = default;

  const std::vector<Entry>& all() const noexcept { return entries_; }
  const Entry* find(ExportId id) const noexcept;
  // Returns the export with the longest name that `path` begins with, whole components alone; null:
  // there is none. `rest` becomes what follows, without slashes around it.
  const Entry* find_by_path(std::string_view path, std::string_view& rest) const noexcept;

 private:
  std::vector<Entry> entries_;
  std::vector<std::pair<ExportId, const Entry*>> by_id_;  // sorted
};

// Used by all threads of a server. One thread at a time adds and publishes.
class ExportTable {
 public:
  explicit ExportTable(const HandleKey& key);

  // Makes room for an export, which stays where it is, and has no files yet.
  ServedExport& add(Export made);
  // The export is complete from now on, and may be published.
  void complete(ServedExport& served, std::unique_ptr<FileSystem> files);
  // Takes the room back that add() made last, for an export that cannot be opened.
  void forget_last();
  // Replaces the exports: calls that come from now on see these.
  void publish(ExportList list);
  // Returns what `use` makes of the exports of this time, which stay until it returns. It must be
  // quick, and must not use this table.
  template <class Function>
  auto read(Function&& use) const {
    const std::shared_lock lock(mutex_);
    return use(list_);
  }
  // Returns all that are complete, also those that are published no more.
  std::vector<ServedExport*> opened();
  const HandleKey& key() const noexcept { return key_; }

 private:
  const HandleKey key_;
  mutable std::shared_mutex mutex_;
  // Guarded by mutex_.
  std::deque<ServedExport> opened_;
  ExportList list_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORT_TABLE_H_
