// Blobs as files of a directory, and uploads that become blobs when they are complete.
#ifndef RPCRDMA_BLOB_STORE_H_
#define RPCRDMA_BLOB_STORE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "blob/protocol.h"
#include "rpcrdma/types.h"

namespace blob {

bool valid_name(std::string_view name) noexcept;

// All state is in the directory: uploads live in DIR/.uploads, so they survive a restart. Safe to
// use from several threads, since each operation works on files of its own names.
class Store {
 public:
  // `directory` exists and is writable; open() makes what it needs inside.
  explicit Store(std::string directory) : directory_(std::move(directory)) {}
  Status open();

  Status put_begin(const UploadId& id, std::string_view name, std::uint64_t size);
  Status put_data(const UploadId& id, std::uint64_t offset, rpcrdma::Bytes data);
  // Reads the whole upload to check its sum: slow for large ones.
  Status put_commit(const UploadId& id, const Sha256& sum);

  struct Got {
    std::size_t size;  // bytes read
    bool end;          // the blob ends with them
  };
  rpcrdma::Expected<Got, Status> get(std::string_view name, std::uint64_t offset,
                                     rpcrdma::MutableBytes into);
  struct Entry {
    std::string name;
    std::uint64_t size;     // bytes
    std::uint64_t time_ns;  // of the last change, since 1970
  };
  rpcrdma::Expected<Entry, Status> stat(std::string_view name);
  std::vector<Entry> list();  // by name
  // Reads the whole blob: slow for large ones.
  rpcrdma::Expected<Sha256, Status> sum(std::string_view name);
  Status remove(std::string_view name);  // kOk also when there is none

 private:
  struct Upload {
    std::string name;
    std::uint64_t size;
    Sha256 committed;  // of an upload that is done
    bool done;
  };
  std::string blob_path(std::string_view name) const;
  std::string upload_path(const UploadId& id, const char* suffix) const;
  rpcrdma::Expected<Upload, Status> find_upload(const UploadId& id) const;
  Status commit_again(const UploadId& id, Upload& upload, const Sha256& sum) const;
  Status write_record(const UploadId& id, const Upload& upload) const;
  void forget_old_uploads() const;

  const std::string directory_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_STORE_H_
