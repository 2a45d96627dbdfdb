// File handles as clients have them: which export, which file of it, and a seal that only this
// server (and others with the same key) can make. A handle that a client made up, or changed, is
// found out before anything is opened.
//
//   byte 0        1, the version
//   bytes 1 … 4   the export: a digest of its name and of its directory's own handle, so that it
//                 stays the same over restarts, and is another when another directory takes the
//                 name
//   bytes 5 …     the back end's own handle
//   the last 16   SipHash-2-4-128 of all before, under the key
#ifndef RPCRDMA_NFS_HANDLE_SEAL_H_
#define RPCRDMA_NFS_HANDLE_SEAL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "nfs/file_system.h"
#include "nfs3.h"
#include "rpcrdma/error.h"

namespace nfs {

using ExportId = std::uint32_t;

// `root`: the inner handle of the export's directory.
ExportId export_id(std::string_view name, std::span<const std::byte> root);

class HandleKey {
 public:
  static constexpr std::size_t kSize = 16;  // bytes

  // A new one, of the system's random numbers.
  static HandleKey random();
  // Reads the key from the file; nullopt: there is no file. The error text says what is wrong with
  // it, and what to do.
  static rpcrdma::Expected<std::optional<HandleKey>, std::string> read(const std::string& path);
  // Also makes the file, readable by its owner alone, if there is none. Servers that do so at once
  // have the same key.
  static rpcrdma::Expected<HandleKey, std::string> load(const std::string& path);

  nfs3::nfs_fh3 seal(ExportId id, std::span<const std::byte> inner) const;
  struct Opened {
    ExportId id;
    std::span<const std::byte> inner;  // of the handle
  };
  // nullopt: this key did not make it.
  std::optional<Opened> open(const nfs3::nfs_fh3& handle) const;

 private:
  using Seal = std::array<std::byte, 16>;

  explicit HandleKey(const std::array<unsigned char, kSize>& bytes) : bytes_(bytes) {}
  Seal seal_of(std::span<const std::byte> bytes) const;

  std::array<unsigned char, kSize> bytes_;
};

// Seals the handles of one export.
class ExportHandles final : public HandleMaker {
 public:
  // The key outlives it.
  explicit ExportHandles(const HandleKey& key) : key_(key) {}
  // Must be called before the first handle is sealed.
  void set_id(ExportId id) noexcept { id_ = id; }
  nfs3::nfs_fh3 seal(std::span<const std::byte> inner) const override {
    return key_.seal(id_, inner);
  }

 private:
  const HandleKey& key_;
  ExportId id_ = 0;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_HANDLE_SEAL_H_
