// Files that are open for their data, as long as they are used and a little longer.
#ifndef RPCRDMA_NFS_CEPH_OPEN_FILES_H_
#define RPCRDMA_NFS_CEPH_OPEN_FILES_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "nfs/ceph/handle.h"

namespace nfs::ceph {

class OpenFiles {
  struct Entry;

 public:
  // Keeps a file open while it lives: libcephfs ends the process when one that is closed is used.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : files_(std::exchange(other.files_, nullptr)), entry_(std::exchange(other.entry_, {})) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(files_, other.files_);
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Use() {
      if (files_ != nullptr) files_->release(*entry_);
    }
    explicit operator bool() const noexcept { return files_ != nullptr; }
    Fh* file() const noexcept { return entry_->file; }

   private:
    friend class OpenFiles;
    Use(OpenFiles& files, Entry& entry) noexcept : files_(&files), entry_(&entry) {}
    OpenFiles* files_ = nullptr;
    Entry* entry_ = nullptr;
  };

  // Keeps at most so many files open that no call uses. `mount` outlives it.
  OpenFiles(ceph_mount_info* mount, std::size_t idle_max) : mount_(mount), idle_max_(idle_max) {}
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Keeps at most so many from now on. More of them are closed as idle files are.
  void set_idle_max(std::size_t idle_max) noexcept { idle_max_ = idle_max; }
  // The file, for reading or for both, opened as the superuser: what the caller may do was checked
  // before. Empty: `error` becomes a negative errno.
  Use open(const Handle& handle, Inode* inode, bool for_writing, int& error);
  // Keeps a file that was opened elsewhere, for reading and writing.
  void adopt(const Handle& handle, Fh* file);
  // Closes a file that was removed: an open file would keep its data.
  void forget(const Handle& handle);
  // Closes files that no call has used for a while: as long as a file is open here, other gateways
  // have to ask the cluster for each of their reads and writes.
  void close_idle();
  std::size_t size() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Key = std::pair<Handle, bool>;  // for writing
  struct Entry {
    Key key;
    Fh* file = nullptr;
    std::size_t uses = 0;
    bool is_forgotten = false;  // no longer in by_key_; goes with its last use
    Clock::time_point last{};
    std::list<Entry*>::iterator place{};  // in idle_, while nobody uses it
  };
  static constexpr std::chrono::seconds kIdle{2};

  Use use(Entry& entry);
  void release(Entry& entry) noexcept;
  // Removes an entry from the tables, with mutex_ held; close_all() closes it.
  void take_out(Entry& entry, std::vector<Fh*>& closing);
  void close_all(const std::vector<Fh*>& closing) noexcept;
  Use insert(const Key& key, Fh* file, std::vector<Fh*>& closing);

  ceph_mount_info* const mount_;
  std::atomic<std::size_t> idle_max_;
  mutable std::mutex mutex_;
  std::map<Key, Entry*> by_key_;  // guarded by mutex_
  std::list<Entry*> idle_;        // guarded by mutex_; the one used last in front
};

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_OPEN_FILES_H_
