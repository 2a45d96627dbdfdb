#include "nfs/posix/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "nfs/posix/identity.h"
#include "nfs/posix/impatience.h"

namespace nfs::posix {
namespace {

// Never a device or a FIFO, which opening alone can wake or stop.
files::File reopen(const files::File& path, int flags) {
  return reopened(path, flags | O_NONBLOCK | O_NOCTTY);
}

// Returns the room on the disk that a file has, in bytes, if no name is left of it. Asks no other
// machine or process, for which one might wait: what the kernel knows will do.
std::optional<std::uint64_t> room_of_removed(const files::File& file) {
  constexpr unsigned kBlock = 512;  // bytes, in statx(2)
  struct statx status {};
  if (::statx(file.descriptor(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK | STATX_BLOCKS,
              &status) != 0 ||
      (status.stx_mask & STATX_NLINK) == 0 || status.stx_nlink > 0) {
    return std::nullopt;
  }
  return status.stx_blocks * kBlock;
}

}  // namespace

files::File reopened(const files::File& file, int flags) {
  return {"/proc/self/fd/" + std::to_string(file.descriptor()), flags};
}

const files::File* OpenFile::content(bool for_writing) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!Impatience::is_on()) lock.lock();
  const bool is_known = lock.owns_lock() || lock.try_lock();  // else another thread is opening it
  if (is_known && writable_.is_open()) return &writable_;
  if (is_known && !for_writing && readable_.is_open()) return &readable_;
  if (Impatience::is_on()) {
    Impatience::give_up();
    errno = EAGAIN;
    return nullptr;
  }
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
  // For writing only on demand: nobody can execute a file that is open for writing.
  if (for_writing) {
    writable_ = reopen(path_, O_RDWR);
    return writable_.is_open() ? &writable_ : nullptr;
  }
  readable_ = reopen(path_, is_directory ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  return readable_.is_open() ? &readable_ : nullptr;
}

void OpenFile::adopt(files::File content) {
  const std::lock_guard lock(mutex_);
  if (!writable_.is_open()) writable_ = std::move(content);
}

bool OpenFile::commit() {
  // First: what is written meanwhile may be too late for this.
  is_unstable_ = false;
  const files::File* const data = content(true);
  return data != nullptr && ::fdatasync(data->descriptor()) == 0;
}

OpenFiles::~OpenFiles() {
  for (const auto& [handle, file] : by_handle_) delete file;
}

OpenFiles::Use OpenFiles::use(OpenFile& file) noexcept {
  if (file.uses_++ == 0) list_of(file).erase(file.place_);
  file.is_leaving_ = false;
  return {*this, file};
}

OpenFiles::Use OpenFiles::find(const InnerHandle& handle) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_handle_.find(handle);
    if (found != by_handle_.end()) return use(*found->second);
  }
  if (Impatience::is_on()) {
    Impatience::give_up();
    errno = EAGAIN;
    return {};
  }
  files::File opened = handles_.open(handle);
  if (!opened.is_open()) return {};
  return add(handle, std::move(opened));
}

OpenFiles::Use OpenFiles::add(const InnerHandle& handle, files::File path) {
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  if (found != by_handle_.end()) return use(*found->second);  // another thread was faster
  while (idle_count() > 0 && idle_count() >= files_max_) drop_oldest();
  auto* const file = new OpenFile;
  file->handle_ = handle;
  file->path_ = std::move(path);
  file->uses_ = 1;
  by_handle_.emplace(handle, file);
  return {*this, *file};
}

void OpenFiles::set_files_max(std::size_t files_max) {
  const std::lock_guard lock(mutex_);
  files_max_ = files_max;
  while (idle_count() > files_max_) drop_oldest();
}

void OpenFiles::release(OpenFile& file) noexcept {
  const std::lock_guard lock(mutex_);
  if (--file.uses_ > 0) return;
  if (!file.is_unstable_ && file.is_written_.exchange(false)) {
    left_contents_.push_back(std::move(file.writable_));
    left_count_ += kLeftMax;  // nobody can execute it until then
  }
  if (file.is_forgotten_) {
    forgotten_.erase(file.place_);
    return leave(file);
  }
  if (std::exchange(file.is_leaving_, false) && !file.is_unstable_) {
    by_handle_.erase(file.handle_);
    return leave(file);
  }
  list_of(file).push_front(&file);
  file.place_ = list_of(file).begin();
  if (idle_count() > files_max_) drop_oldest();
}

void OpenFiles::drop_oldest() {
  if (idle_.empty()) {
    OpenFile* const oldest = unstable_.back();
    unstable_.pop_back();
    oldest->uses_ = 1;
    oldest->is_leaving_ = true;
    leaving_.push_back(oldest);
    left_count_ += 1;
    return;
  }
  OpenFile* const oldest = idle_.back();
  idle_.pop_back();
  by_handle_.erase(oldest->handle_);
  leave(*oldest);
}

// Calls find such a file, so that a COMMIT of it waits for this one, and has its error or a new
// verifier.
void OpenFiles::sync_what_leaves() {
  for (;;) {
    OpenFile* file = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (leaving_.empty()) break;
      file = leaving_.back();
      leaving_.pop_back();
    }
    {
      const std::lock_guard lock(file->commits());
      if (file->is_unstable_ && !file->commit()) lost_();
    }
    release(*file);
  }
  close_what_left();
}

void OpenFiles::forget(const InnerHandle& handle) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(handle);
  if (found == by_handle_.end()) return;
  // Another name of it may be left, and its data is not on the disk.
  OpenFile& file = *found->second;
  if (!file.is_unstable_ || room_of_removed(file.path_)) take_out(file);
}

void OpenFiles::take_out(OpenFile& file) {
  by_handle_.erase(file.handle_);
  file.is_forgotten_ = true;
  if (file.uses_ == 0) {
    list_of(file).erase(file.place_);
    return leave(file);
  }
  forgotten_.push_front(&file);
  file.place_ = forgotten_.begin();
}

void OpenFiles::shrink() {
  const std::lock_guard lock(mutex_);
  for (std::size_t left = (idle_count() + 1) / 2; left > 0; --left) drop_oldest();
}

void OpenFiles::close_what_left() {
  std::vector<std::unique_ptr<OpenFile>> files;
  std::vector<files::File> contents;
  const std::lock_guard lock(mutex_);
  files.swap(left_);
  contents.swap(left_contents_);
  left_count_ = 0;
  for (auto& file : files) {
    if (file->is_looked_at_) left_.push_back(std::move(file));
  }
}  // closed behind the lock

std::vector<OpenFile*> OpenFiles::next_looks(std::size_t looks_max) {
  std::vector<OpenFile*> looks;
  const std::lock_guard lock(mutex_);
  const std::size_t buckets = by_handle_.bucket_count();
  for (std::size_t i = 0; i < buckets && looks.size() < looks_max; ++i) {
    bucket_ = (bucket_ + 1) % buckets;
    std::for_each(by_handle_.begin(bucket_), by_handle_.end(bucket_),
                  [&](const auto& each) { looks.push_back(each.second); });
  }
  looks.insert(looks.end(), forgotten_.begin(), forgotten_.end());
  for (OpenFile* const file : looks) file->is_looked_at_ = true;
  return looks;
}

OpenFiles::Held OpenFiles::close_removed(Clock::time_point now, std::size_t looks_max) {
  const std::vector<OpenFile*> looks = next_looks(looks_max);
  std::vector<std::pair<OpenFile*, std::uint64_t>> removed;
  for (OpenFile* const file : looks) {
    if (const auto room = room_of_removed(file->path())) removed.emplace_back(file, *room);
  }
  Held held;
  {
    const std::lock_guard lock(mutex_);
    for (OpenFile* const file : looks) file->is_looked_at_ = false;
    for (const auto& [file, room] : removed) {
      const auto found = by_handle_.find(file->handle_);
      if (found != by_handle_.end() && found->second == file) take_out(*file);
      if (!file->is_forgotten_ || file->uses_ == 0) continue;  // it is closed below
      if (!file->held_since_) file->held_since_ = now;
      if (now - *file->held_since_ < kHeldMax) continue;
      ++held.files;
      held.bytes += room;
    }
  }
  sync_what_leaves();
  return held;
}

std::size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return by_handle_.size();
}

}  // namespace nfs::posix
