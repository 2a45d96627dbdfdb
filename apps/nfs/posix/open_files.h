// The files that are open, by their handles, as many as may be: the ones used last.
#ifndef RPCRDMA_NFS_POSIX_OPEN_FILES_H_
#define RPCRDMA_NFS_POSIX_OPEN_FILES_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/file.h"
#include "nfs/posix/handles.h"
#include "nfs/posix/identity.h"

namespace nfs::posix {

// Opens the same file once more by its open descriptor. Not open: errno.
files::File reopened(const files::File& file, int flags);

// One of them, open with O_PATH; and for its content, once that is wanted.
class OpenFile {
 public:
  const InnerHandle& handle() const noexcept { return handle_; }
  const files::File& path() const noexcept { return path_; }
  // A regular file's data, or a directory to be synced. Opened with the server's rights: what the
  // caller may do is checked before. Null: errno.
  const files::File* content(bool for_writing);
  // Open for reading and writing already.
  void adopt(files::File content);
  // Nobody on this machine can execute a file that is open for writing. Called when the writer is
  // done, as far as one can know, with what the file is; it stays open if the server could not open
  // it again.
  void close_writable_when_idle(const struct stat& status) noexcept {
    if (can_reopen(status)) is_written_ = true;
  }

  // Data was written that is not on the disk. The descriptor stays open until it is: the kernel
  // says that writing back has failed to those alone that have the file open.
  void set_unstable() noexcept { is_unstable_ = true; }
  // Waits for the disk, with commits() held. False: errno; data that was written may be lost.
  bool commit();

  // Returns whether the kernel has read the file's rights, and so has them in memory.
  bool are_rights_known() const noexcept { return are_rights_known_; }
  void set_rights_known() noexcept { are_rights_known_ = true; }

  // COMMITs of the file, and other waits for its data, one at a time.
  std::mutex& commits() noexcept { return commits_; }

  // Marks a WRITE that is under way, for its scope.
  class Writing {
   public:
    explicit Writing(OpenFile& file) noexcept : file_(file) { ++file_.writes_begun_; }
    ~Writing() { ++file_.writes_ended_; }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    OpenFile& file_;
  };
  // Since it was made, no WRITE was under way.
  class Quiet {
   public:
    explicit Quiet(const OpenFile& file) noexcept
        : file_(file), ended_(file.writes_ended_), begun_(file.writes_begun_) {}
    explicit operator bool() const noexcept {
      return ended_ == begun_ && file_.writes_begun_ == begun_;
    }

   private:
    const OpenFile& file_;
    const std::uint64_t ended_, begun_;  // in this order: read the other way, one could end between
  };

 private:
  friend class OpenFiles;

  InnerHandle handle_;
  files::File path_;
  // Opened when they are first needed, and open until the end, since others use them.
  std::mutex mutex_;
  files::File writable_;  // guarded by mutex_
  files::File readable_;  // guarded by mutex_
  std::mutex commits_;
  std::atomic<bool> is_written_ = false;
  std::atomic<bool> is_unstable_ = false;
  std::atomic<bool> are_rights_known_ = false;
  std::atomic<std::uint64_t> writes_begun_ = 0, writes_ended_ = 0;
  // Guarded by the lock of OpenFiles.
  std::size_t uses_ = 0;
  bool is_forgotten_ = false;  // goes with its last use
  bool is_looked_at_ = false;  // by close_removed(), which closes it if it leaves meanwhile
  bool is_leaving_ = false;    // goes when its data is on the disk, unless somebody uses it again
  std::list<OpenFile*>::iterator place_{};  // in a list of OpenFiles
  std::optional<std::chrono::steady_clock::time_point> held_since_;
};

class OpenFiles {
 public:
  using Clock = std::chrono::steady_clock;
  // Removed files that still have their room on the disk, since calls use them.
  struct Held {
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
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

  // Keeps at most so many files that no call uses; each has up to three descriptors. `lost` is
  // called where data that was not committed may be lost. `handles` outlives it.
  OpenFiles(
      Handles& handles, std::size_t files_max, std::function<void()> lost = [] {})
      : handles_(handles), lost_(std::move(lost)), files_max_(files_max) {}
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Finds a file. In impatience it succeeds only if the file is open.
  Use find(const InnerHandle& handle);
  // Keeps at most so many from now on; those used last stay.
  void set_files_max(std::size_t files_max);
  // A file that was just opened with O_PATH, and its handle.
  Use add(const InnerHandle& handle, files::File path);
  // It was removed: what is open would keep its data on the disk.
  void forget(const InnerHandle& handle) noexcept;
  // Descriptors ran out: closes half of what nobody uses, so that the next call finds some.
  void shrink();
  // Closes files that somebody else has removed, whose room on the disk comes back by that: looks
  // at `looks_max` files that are open, and at others the next time. Returns what calls have
  // held for longer than kHeldMax. One thread at a time. `now` is for tests.
  Held close_removed(Clock::time_point now = Clock::now(), std::size_t looks_max = kLooksMax);
  static constexpr std::size_t kLooksMax = 1024;
  static constexpr std::chrono::seconds kHeldMax{5};
  // Closes what has left the table: of a large file that was removed that takes its time.
  void close_what_left();
  // Waits until the data of files that are to leave is on the disk, and closes them. Call it on a
  // thread that may wait, and not before a call that does not.
  void sync_what_leaves();
  // It is time for that: no call is answered at once before it is done.
  bool has_much_to_close() const noexcept { return left_count_ >= kLeftMax; }
  std::size_t size() const;

 private:
  void release(OpenFile& file) noexcept;
  // With mutex_ held, as the next three.
  Use use(OpenFile& file) noexcept;
  std::size_t idle_count() const noexcept { return idle_.size() + unstable_.size(); }
  std::list<OpenFile*>& list_of(const OpenFile& file) noexcept {
    return file.is_unstable_ ? unstable_ : idle_;
  }
  // Those go first that have nothing to be synced.
  void drop_oldest();
  // Removes a file from the table, with mutex_ held; it goes with its last use.
  void take_out(OpenFile& file);
  // Returns files to look at, which stay until they are not looked at any more.
  std::vector<OpenFile*> next_looks(std::size_t looks_max);
  // Lets a worker close it. With mutex_ held.
  void leave(OpenFile& file) {
    left_.emplace_back(&file);
    // The room of one that was removed is to come back.
    left_count_ += file.is_forgotten_ ? kLeftMax : 1;
  }
  static constexpr std::size_t kLeftMax = 32;

  Handles& handles_;
  const std::function<void()> lost_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t files_max_;
  std::unordered_map<InnerHandle, OpenFile*, HashOfHandle> by_handle_;
  // Those that nobody uses, the ones used last in front; with data that may not be on the disk in a
  // list of their own.
  std::list<OpenFile*> idle_, unstable_;
  std::list<OpenFile*> forgotten_;  // those in use that were removed
  std::vector<OpenFile*> leaving_;  // to be synced; each is in use until then
  std::size_t bucket_ = 0;          // of by_handle_, at which close_removed() goes on
  std::vector<std::unique_ptr<OpenFile>> left_;
  std::vector<files::File> left_contents_;
  std::atomic<std::size_t> left_count_ = 0;  // changed with mutex_ held
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_OPEN_FILES_H_
