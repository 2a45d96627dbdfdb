// The input of a put: a file of known size, or anything else that has an end.
#ifndef RPCRDMA_BLOB_SOURCE_H_
#define RPCRDMA_BLOB_SOURCE_H_

#include <cstdint>
#include <utility>

#include "blob.h"
#include "files/file.h"
#include "rpcrdma/types.h"

namespace blob {

class Source {
 public:
  // Reads from where the descriptor stands.
  explicit Source(files::File file) : file_(std::move(file)) {
    const auto status = file_.status();
    if (!status) return;
    is_regular_ = S_ISREG(status->st_mode);
    const off_t position = is_regular_ ? ::lseek(file_.descriptor(), 0, SEEK_CUR) : -1;
    if (position < 0 || status->st_size <= position) return;
    likely_size_ = static_cast<std::uint64_t>(status->st_size - position);
    // Files that a kernel makes up as they are read (/proc, /sys) say 0 or one page, and take no
    // room on a disk.
    if (status->st_blocks > 0) size_ = likely_size_;
  }

  bool is_open() const noexcept { return file_.is_open(); }
  int descriptor() const noexcept { return file_.descriptor(); }
  // Bytes to come; BLOB_SIZE_UNKNOWN where only reading shows it.
  std::uint64_t size() const noexcept { return size_; }
  // Returns the size to show to a person who watches; 0: unknown.
  std::uint64_t likely_size() const noexcept { return likely_size_; }
  // Returns whether a read may have to wait for a writer.
  bool may_block() const noexcept { return !is_regular_; }

  // Reads as read(2) does.
  ssize_t read(rpcrdma::MutableBytes into) noexcept {
    ssize_t count = -1;
    do {
      count = ::read(file_.descriptor(), into.data(), into.size());
    } while (count < 0 && errno == EINTR);
    return count;
  }

 private:
  files::File file_;
  std::uint64_t size_ = BLOB_SIZE_UNKNOWN;
  std::uint64_t likely_size_ = 0;
  bool is_regular_ = false;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_SOURCE_H_
