#include "nfs/posix/open_files.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "nfs/posix/identity.h"

namespace nfs::posix {
namespace {

// Of what is open with O_PATH. Never a device or a FIFO, which opening alone can wake or stop.
files::File reopen(const files::File& path, int flags) {
  const std::string link = "/proc/self/fd/" + std::to_string(path.descriptor());
  return {link, flags | O_NONBLOCK | O_NOCTTY};
}

}  // namespace

const files::File* OpenFile::content(bool for_writing) {
  const std::lock_guard lock(mutex_);
  if (writable_.is_open()) return &writable_;
  if (!for_writing && readable_.is_open()) return &readable_;
  const auto status = path_.status();
  if (!status) return nullptr;
  const bool is_directory = S_ISDIR(status->st_mode);
  if (!is_directory && !S_ISREG(status->st_mode)) {
    errno = EINVAL;
    return nullptr;
  }
  if (is_directory && for_writing) {
    errno = EISDIR;
    return nullptr;
  }
  const AsServer as_server;
  // Only for who writes: nobody can execute a file that is open for writing.
  if (for_writing) {
    writable_ = reopen(path_, O_RDWR);
    return writable_.is_open() ? &writable_ : nullptr;
  }
  readable_ = reopen(path_, is_directory ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  return readable_.is_open() ? &readable_ : nullptr;
}

OpenFiles::~OpenFiles() {
  for (const auto& [handle, file] : by_handle_) delete file;
}

OpenFiles::Use OpenFiles::use(OpenFile& file) noexcept {
  if (file.uses_++ == 0) idle_.erase(file.place_);
  return {*this, file};
}

OpenFiles::Use OpenFiles::find(const InnerHandle& handle) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_handle_.find(handle);
    if (found != by_handle_.end()) return use(*found->second);
  }
  files::File opened = handles_.open(handle);
  if (!opened.is_open()) return {};
  return add(handle, std::move(opened));
}

// Closing the last descriptor of a large file that was removed takes its time, which nobody else is
// to wait for: what goes is destroyed behind the lock.
OpenFiles::Use OpenFiles::add(const InnerHandle& handle, files::File path) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  if (found != by_handle_.end()) return use(*found->second);  // another thread was faster
  while (idle_.size() >= files_max_) dropped.push_back(drop_oldest());
  auto* const file = new OpenFile;
  file->handle_ = handle;
  file->path_ = std::move(path);
  file->uses_ = 1;
  by_handle_.emplace(handle, file);
  return {*this, *file};
}

void OpenFiles::release(OpenFile& file) noexcept {
  std::unique_ptr<OpenFile> dropped;
  const std::lock_guard lock(mutex_);
  if (--file.uses_ > 0) return;
  if (file.is_forgotten_) {
    dropped.reset(&file);
    return;
  }
  idle_.push_front(&file);
  file.place_ = idle_.begin();
  if (idle_.size() > files_max_) dropped = drop_oldest();
}

std::unique_ptr<OpenFile> OpenFiles::drop_oldest() {
  std::unique_ptr<OpenFile> oldest(idle_.back());
  idle_.pop_back();
  by_handle_.erase(oldest->handle_);
  return oldest;
}

void OpenFiles::forget(const InnerHandle& handle) noexcept {
  std::unique_ptr<OpenFile> dropped;
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  if (found == by_handle_.end()) return;
  OpenFile* const file = found->second;
  by_handle_.erase(found);
  if (file->uses_ > 0) {
    file->is_forgotten_ = true;
    return;
  }
  idle_.erase(file->place_);
  dropped.reset(file);
}

void OpenFiles::shrink() {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  for (std::size_t left = (idle_.size() + 1) / 2; left > 0; --left) {
    dropped.push_back(drop_oldest());
  }
}

std::size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return by_handle_.size();
}

}  // namespace nfs::posix
