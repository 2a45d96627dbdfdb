// The exports that a server has, with what keeps their files.
#ifndef RPCRDMA_NFS_EXPORT_TABLE_H_
#define RPCRDMA_NFS_EXPORT_TABLE_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "nfs/exports.h"
#include "nfs/file_system.h"
#include "nfs/handle_seal.h"

namespace nfs {

struct ServedExport {
  Export rules;
  ExportId id = 0;
  ExportHandles handles;
  std::unique_ptr<FileSystem> files;
};

// Filled before the server runs; read by all of its threads.
class ExportTable {
 public:
  explicit ExportTable(const HandleKey& key) : key_(key) {}

  // Room for an export, which stays where it is, and has no files yet. The text says that there is
  // one of its name.
  rpcrdma::Expected<ServedExport*, std::string> add(Export made);
  // The export is complete. The text says that (once in four billion) another has its number.
  rpcrdma::Expected<void, std::string> complete(ServedExport& served,
                                                std::unique_ptr<FileSystem> files);
  const std::deque<ServedExport>& all() const noexcept { return exports_; }
  ServedExport* find(ExportId id) noexcept;
  // The longest name that `path` begins with, whole components alone; null: there is none. `rest`
  // becomes what follows, without slashes around it.
  ServedExport* find_by_path(std::string_view path, std::string_view& rest) noexcept;
  const HandleKey& key() const noexcept { return key_; }

 private:
  const HandleKey key_;
  std::deque<ServedExport> exports_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORT_TABLE_H_
