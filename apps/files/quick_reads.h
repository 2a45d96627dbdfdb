// Reads that wait for no disk.
#ifndef RPCRDMA_FILES_QUICK_READS_H_
#define RPCRDMA_FILES_QUICK_READS_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "files/file.h"
#include "rpcrdma/types.h"

namespace files {

// Says of a file system which reads wait for no disk, as far as that is known of its kind.
class QuickReads {
 public:
  // `directory` is a descriptor of a directory in the file system, O_PATH will do.
  explicit QuickReads(int directory) noexcept;

  // Returns whether inodes are whole once they are in memory. Other file systems may ask a server
  // or a process for a file's attributes.
  bool keeps_inodes() const noexcept { return keeps_inodes_; }
  // Returns whether no read ever waits for a disk, as in tmpfs, which has no RWF_NOWAIT to ask.
  bool keeps_data() const noexcept { return keeps_data_; }
  // Returns whether reading a file of this status sets its time of access, which may wait for a
  // journal.
  bool sets_time(const struct stat& status) const noexcept;

 private:
  bool keeps_inodes_ = false;
  bool keeps_data_ = false;
  unsigned long mount_flags_ = 0;  // ST_NOATIME and so on
};

// Reads as File::read_at() does, if all of it is in the cache of pages; nullopt: it is not. `size`
// is the file's.
std::optional<std::size_t> read_if_in_memory(const File& file, rpcrdma::MutableBytes into,
                                             std::uint64_t offset, std::uint64_t size) noexcept;

}  // namespace files

#endif  // RPCRDMA_FILES_QUICK_READS_H_
