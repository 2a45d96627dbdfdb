// The entries of directories, each with a cookie from which a reader goes on, also when entries
// have come and gone meanwhile, and after a restart.
//
// File systems whose own positions are of that kind give theirs. With others (tmpfs, overlayfs)
// entries are sorted by a digest of their names, which is the cookie; a page then costs a look at
// the whole directory, so that what was listed is kept until the directory changes.
#ifndef RPCRDMA_NFS_POSIX_LISTING_H_
#define RPCRDMA_NFS_POSIX_LISTING_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "files/file.h"
#include "nfs/back_end/listing_answer.h"
#include "nfs/posix/inner_handle.h"

namespace nfs::posix {

struct DirectoryEntry {
  std::string name;
  std::uint64_t fileid = 0;
  std::uint64_t cookie = 0;  // the reader goes on behind this entry
};

// Returns whether the positions of entries in this file system never change.
bool has_stable_positions(const files::File& root);

// Calls `take(entry)` for the entries behind the position (0: all), in order, until it returns
// false. The directory is open for reading, by its own descriptor. kError: errno.
ListingEnd for_each_by_position(const files::File& directory, std::uint64_t position,
                                const std::function<bool(const DirectoryEntry&)>& take);

class Listings {
 public:
  struct Limits {
    // Kept, of all directories together. Each page looks for its own among them.
    std::size_t entries_max = 1'000'000;
    std::size_t directories_max = 64;
    // One directory at a time is read that has more than so many.
    std::size_t long_min = 100'000;
  };
  using Entries = std::vector<DirectoryEntry>;
  struct Page {
    Entries entries;  // in the order of their cookies
    bool is_last = false;
  };

  Listings() = default;
  explicit Listings(const Limits& limits) : limits_(limits) {}

  // Up to `count` entries behind the cookie. The directory is open for reading; `status` is what it
  // was before. nullopt: errno; EAGAIN: another long one is being read.
  std::optional<Page> page(const InnerHandle& handle, const files::File& directory,
                           const struct stat& status, std::uint64_t cookie, std::size_t count);
  // For tests: keeps long directories from being read while it is taken.
  std::binary_semaphore& long_one() noexcept { return long_; }

 private:
  struct Kept {
    InnerHandle handle;
    timespec changed;  // ctime of the directory when it was listed; clients set mtime
    Entries entries;
  };
  // Gives long_ back.
  struct LongOne {
    ~LongOne() {
      if (of != nullptr) of->release();
    }
    std::binary_semaphore* of = nullptr;
  };
  // Reads all of it; a long one takes long_. False: errno.
  bool read(const files::File& directory, Entries& entries, LongOne& long_one);

  const Limits limits_{};
  std::binary_semaphore long_{1};  // taken while a long directory is read and sorted
  std::mutex mutex_;
  std::list<Kept> kept_;          // guarded by mutex_; the one used last in front
  std::size_t entries_kept_ = 0;  // guarded by mutex_
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_LISTING_H_
