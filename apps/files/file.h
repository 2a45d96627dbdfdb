// A file descriptor that closes itself, and reads and writes that go on until they are done.
#ifndef RPCRDMA_FILES_FILE_H_
#define RPCRDMA_FILES_FILE_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rpcrdma/types.h"

namespace files {

class File {
 public:
  File() = default;
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  // Opens a file. On failure it is not open, and errno is set.
  File(const std::string& path, int flags, mode_t mode = 0644) noexcept
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool is_open() const noexcept { return descriptor_ >= 0; }
  int descriptor() const noexcept { return descriptor_; }

  std::optional<struct stat> status() const noexcept {
    struct stat result {};
    if (::fstat(descriptor_, &result) != 0) return std::nullopt;
    return result;
  }
  // Bytes read, less than asked only at the end of the file; nullopt: errno.
  std::optional<std::size_t> read_at(rpcrdma::MutableBytes into,
                                     std::uint64_t offset) const noexcept {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t count = ::pread(descriptor_, into.data() + done, into.size() - done,
                                    static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return std::nullopt;
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }
  // All or nothing but errno.
  bool write_at(rpcrdma::Bytes from, std::uint64_t offset) noexcept {
    std::size_t done = 0;
    while (done < from.size()) {
      const ssize_t count = ::pwrite(descriptor_, from.data() + done, from.size() - done,
                                     static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      done += static_cast<std::size_t>(count);
    }
    return true;
  }
  // Has network file systems and FUSE store what was written: they do when a descriptor of the file
  // is closed, and say then whether there was room. Others have nothing to do. False: errno.
  bool flush() const noexcept {
    const int copy = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    return copy >= 0 && ::close(copy) == 0;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace files

#endif  // RPCRDMA_FILES_FILE_H_
