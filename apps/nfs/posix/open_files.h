// The files that are open, by their handles, as many as may be: the ones used last.
#ifndef RPCRDMA_NFS_POSIX_OPEN_FILES_H_
#define RPCRDMA_NFS_POSIX_OPEN_FILES_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/file.h"
#include "nfs/posix/handles.h"

namespace nfs::posix {

// One of them, open with O_PATH; and for its content, once that is wanted.
class OpenFile {
 public:
  const InnerHandle& handle() const noexcept { return handle_; }
  const files::File& path() const noexcept { return path_; }
  // A regular file's data, or a directory to be synced. Opened with the server's rights: what the
  // caller may do is checked before. Null: errno.
  const files::File* content(bool for_writing);

 private:
  friend class OpenFiles;

  InnerHandle handle_;
  files::File path_;
  // Not open until they are wanted. They stay as they are then, since others use them.
  std::mutex mutex_;
  files::File writable_;  // guarded by mutex_
  files::File readable_;  // guarded by mutex_
  // Under the lock of OpenFiles.
  std::size_t uses_ = 0;
  bool is_forgotten_ = false;  // goes with its last use
  std::list<OpenFile*>::iterator place_{};
};

class OpenFiles {
 public:
  // Keeps a file open while it lives. Empty: errno was set.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : files_(std::exchange(other.files_, nullptr)),
          file_(std::exchange(other.file_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(files_, other.files_);
      std::swap(file_, other.file_);
      return *this;
    }
    ~Use() {
      if (file_ != nullptr) files_->release(*file_);
    }
    explicit operator bool() const noexcept { return file_ != nullptr; }
    OpenFile* operator->() const noexcept { return file_; }
    OpenFile& operator*() const noexcept { return *file_; }

   private:
    friend class OpenFiles;
    Use(OpenFiles& files, OpenFile& file) noexcept : files_(&files), file_(&file) {}
    OpenFiles* files_ = nullptr;
    OpenFile* file_ = nullptr;
  };

  // At most so many files that nobody uses; each has up to two descriptors. `handles` outlives it.
  OpenFiles(Handles& handles, std::size_t files_max) : handles_(handles), files_max_(files_max) {}
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  Use find(const InnerHandle& handle);
  // A file that was just opened with O_PATH, and its handle.
  Use add(const InnerHandle& handle, files::File path);
  // It was removed: what is open would keep its data on the disk.
  void forget(const InnerHandle& handle) noexcept;
  // Descriptors ran out: closes half of what nobody uses, so that the next call finds some.
  void shrink();
  std::size_t size() const;

 private:
  void release(OpenFile& file) noexcept;
  Use use(OpenFile& file) noexcept;
  using Dropped = std::vector<std::unique_ptr<OpenFile>>;
  std::unique_ptr<OpenFile> drop_oldest();

  Handles& handles_;
  const std::size_t files_max_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<InnerHandle, OpenFile*, HashOfHandle> by_handle_;
  std::list<OpenFile*> idle_;  // those that nobody uses, the one used last in front
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_OPEN_FILES_H_
