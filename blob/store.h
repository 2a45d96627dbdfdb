// Blobs as files of a directory, and uploads that become blobs when they are complete.
#ifndef RPCRDMA_BLOB_STORE_H_
#define RPCRDMA_BLOB_STORE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "blob.h"
#include "rpcrdma/types.h"

namespace blob {

bool valid_name(std::string_view name) noexcept;

// All state is in the directory: uploads live in DIR/.uploads, so they survive a restart. Safe to
// use from several threads, since each operation works on files of its own names.
class Store {
 public:
  // `directory` exists and is writable; open() makes what it needs inside.
  explicit Store(std::string directory) : directory_(std::move(directory)) {}
  blob_status open();

  blob_status put_begin(const blob_id& id, std::string_view name, std::uint64_t size);
  blob_status put_data(const blob_id& id, std::uint64_t offset, rpcrdma::Bytes data);
  // Reads the whole upload to check its sum: slow for large ones.
  blob_status put_commit(const blob_id& id, const blob_sum& sum);

  struct Got {
    std::size_t size;  // bytes read
    bool end;          // the blob ends with them
  };
  rpcrdma::Expected<Got, blob_status> get(std::string_view name, std::uint64_t offset,
                                          rpcrdma::MutableBytes into);
  struct Entry {
    std::string name;
    std::uint64_t size;     // bytes
    std::uint64_t time_ns;  // of the last change, since 1970
  };
  rpcrdma::Expected<Entry, blob_status> stat(std::string_view name);
  std::vector<Entry> list();  // by name
  // Reads the whole blob: slow for large ones.
  rpcrdma::Expected<blob_sum, blob_status> sum(std::string_view name);
  blob_status remove(std::string_view name);  // kOk also when there is none

 private:
  struct Upload {
    std::string name;
    std::uint64_t size;
    blob_sum committed;  // of an upload that is done
    bool done;
  };
  std::string blob_path(std::string_view name) const;
  std::string upload_path(const blob_id& id, const char* suffix) const;
  rpcrdma::Expected<Upload, blob_status> find_upload(const blob_id& id) const;
  blob_status commit_again(const blob_id& id, Upload& upload, const blob_sum& sum) const;
  blob_status write_record(const blob_id& id, const Upload& upload) const;
  void forget_old_uploads() const;

  const std::string directory_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_STORE_H_
