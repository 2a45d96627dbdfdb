// Blobs as files of a directory, and uploads that become blobs when they are complete.
#ifndef RPCRDMA_BLOB_STORE_H_
#define RPCRDMA_BLOB_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "blob.h"
#include "blob/log.h"
#include "blob/name_order.h"
#include "files/beneath.h"
#include "files/file.h"
#include "files/quick_reads.h"
#include "rpcrdma/types.h"

namespace blob {

struct StoreOptions {
  bool is_read_only = false;
  // Uploads to which nothing comes for so long are forgotten, and so is, as long after a commit,
  // what makes it repeatable.
  std::chrono::milliseconds upload_idle_max{600'000};
  // Brings a file or a directory to the disk; empty: commits are answered before that.
  std::function<bool(int descriptor)> sync = [](int descriptor) {
    return ::fsync(descriptor) == 0;
  };
  // Since 1970, as the times of files.
  std::function<std::chrono::nanoseconds()> now = [] {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch());
  };
  Log* log = nullptr;  // outlives the store
};

// All state is in the directory: uploads live in DIR/.uploads, so they survive a restart. Safe to
// use from several threads: operations on blobs work on files of their own names, and those of one
// upload take turns only where they would disturb each other (Use).
//
// Only regular files are blobs, and only those that lie in the directory: symbolic links that lead
// out of it, FIFOs and devices are as if they were not there.
class Store {
 public:
  // `directory` exists and, unless the store is read-only, is writable; open() says if not.
  explicit Store(std::string directory, StoreOptions options = {});
  blob_status open();

  // One call of an upload, from before it is executed until it is answered. While an upload has
  // one it is not removed, and the failure that ended it is what all its calls fail with: a client
  // that has several under way gets the cause first, whichever of them is answered first.
  class Use;

  blob_status put_begin(const blob_id& id, std::string_view name, std::uint64_t size);
  // Writes data. Without data it only keeps the upload alive. A failure, as where the disk has no
  // room, ends the upload, which is dropped with its last Use.
  blob_status put_data(const blob_id& id, std::uint64_t offset, rpcrdma::Bytes data);
  // Reads the whole upload to check its sum: slow for large ones. When it succeeds, the blob is
  // there and, unless StoreOptions::sync is empty, stays when the machine loses its power.
  blob_status put_commit(const blob_id& id, const blob_sum& sum);
  // Returns the final name of an upload; empty: there is no such upload.
  std::string name_of(const blob_id& id) const;
  // Discards uploads that have expired, and what nobody lists; call it from time to time. No other
  // function waits for it, but for one that uses the very upload that it removes.
  void expire();

  struct Got {
    std::size_t size;  // bytes read
    bool end;          // the blob ends with them
  };
  rpcrdma::Expected<Got, blob_status> get(std::string_view name, std::uint64_t offset,
                                          rpcrdma::MutableBytes into);
  // Does the same if that waits for no disk: the blob and the data are in memory. nullopt: it may
  // have to wait, or get() has to say why there is no data. `removed` becomes the file that was
  // read if it has lost its name meanwhile: the last close frees its data, and may wait for the
  // disk.
  std::optional<Got> get_at_once(std::string_view name, std::uint64_t offset,
                                 rpcrdma::MutableBytes into, files::File& removed) const;
  struct Entry {
    std::string name;
    std::uint64_t size;     // bytes
    std::uint64_t time_ns;  // of the last change, since 1970
  };
  rpcrdma::Expected<Entry, blob_status> stat(std::string_view name);
  struct Page {
    std::vector<Entry> entries;
    std::uint64_t place;  // of the last one; the next page has those behind it
    bool end;             // there are none
  };
  // Lists blobs behind a place, 0 at first, until they have `size_min` bytes, each that of its name
  // and kEntrySize. A blob that is there all the time is listed once, whatever others come and go
  // between the pages. Reads the whole directory where that has changed: slow for large ones.
  static constexpr std::size_t kEntrySize = 16;
  Page list(std::uint64_t after, std::size_t size_min);
  // Reads the whole blob: slow for large ones.
  rpcrdma::Expected<blob_sum, blob_status> sum(std::string_view name);
  blob_status remove(std::string_view name);  // BLOB_OK also when there is none

  const StoreOptions& options() const noexcept { return options_; }

 private:
  struct Upload {
    std::string name;
    std::uint64_t size;
    blob_sum committed;  // of an upload that is done
    bool done;
  };
  struct Uses {
    std::size_t count = 0;
    bool has_begin = false;            // PUT_BEGIN is one of them
    bool has_commit = false;           // PUT_COMMIT is one of them
    bool is_leaving = false;           // it has no use, and is removed
    std::optional<blob_status> ended;  // what it failed with; it is removed behind the last use
  };

  files::File open_regular(std::string_view name,
                           files::Resolving resolving = files::Resolving::kAuto) const;
  std::optional<Got> read_at_once(const files::File& file, std::uint64_t offset,
                                  rpcrdma::MutableBytes into) const;
  blob_status failed(std::string_view what, std::string_view name) const;  // by errno
  bool may_be_replaced(std::string_view name) const;

  files::File open_upload(const blob_id& id, const char* suffix, int flags) const;
  files::File make_data(const blob_id& id) const;
  rpcrdma::Expected<Upload, blob_status> find_upload(const blob_id& id) const;
  blob_status check(const files::File& data, const Upload& upload, const blob_sum& sum) const;
  blob_status publish(const blob_id& id, Upload& upload, const blob_sum& sum, Use& use) const;
  blob_status commit_again(const blob_id& id, Upload& upload, const blob_sum& sum) const;
  blob_status write_record(const blob_id& id, const Upload& upload) const;
  bool has_expired(const std::string& id) const;
  void remove_if_expired(const std::string& id);

  const std::string path_;
  const StoreOptions options_;
  const files::File directory_;
  const files::QuickReads quick_reads_;
  std::mutex list_mutex_;
  NameOrder names_;              // guarded by list_mutex_
  bool are_names_used_ = false;  // since expire() was called; the same
  // The lock is held for the look at the table alone, and never while something waits for a disk.
  std::mutex mutex_;
  std::condition_variable ended_;     // a use that others may wait for, or a removal
  std::map<std::string, Uses> uses_;  // of uploads, by their ids in hex; guarded by mutex_
};

// May be nested: each operation of the store has a Use of its own.
class Store::Use {
 public:
  // Waits while the upload is removed. The store outlives it.
  Use(Store& store, const blob_id& id) : Use(store, id, nullptr) {}
  ~Use();  // removes the files of an upload that has ended, if nobody else uses it
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  friend class Store;
  using Place = std::map<std::string, Uses>::iterator;

  // `only` is a flag of Uses that no other use of the upload has at the same time; null: none.
  // PUT_BEGINs of an upload, which write its record, run one at a time, and so do PUT_COMMITs.
  Use(Store& store, const blob_id& id, bool Uses::*only);
  Place enter(const std::string& id);
  // Returns what the upload has failed with, for this call as well.
  std::optional<blob_status> ended() const;
  // Ends the upload, unless an earlier failure has. Returns the failure that has.
  blob_status end(blob_status status);

  Store& store_;
  bool Uses::*const only_;
  const Place place_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_STORE_H_
