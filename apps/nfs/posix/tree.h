// The base of all calls of an export: it finds files by handle and by name, checks rights, and
// changes directories. It runs on threads that have taken the caller's identity.
#ifndef RPCRDMA_NFS_POSIX_TREE_H_
#define RPCRDMA_NFS_POSIX_TREE_H_

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "files/file.h"
#include "files/quick_reads.h"
#include "nfs/back_end/limits.h"
#include "nfs/file_system.h"
#include "nfs/posix/handles.h"
#include "nfs/posix/identity.h"
#include "nfs/posix/listing.h"
#include "nfs/posix/open_files.h"

namespace nfs::posix {

// A file in use and what it was when it was found; the status says why there is none.
struct Found {
  OpenFiles::Use file;
  struct stat status {};
  nfs3::nfsstat3 error = nfs3::nfsstat3::NFS3_OK;

  explicit operator bool() const noexcept { return error == nfs3::nfsstat3::NFS3_OK; }
  int descriptor() const noexcept { return file->path().descriptor(); }
};

class Tree {
 public:
  struct Settings {
    std::uint64_t fsid = 0;
    std::size_t open_files_max = 0;
    bool is_async = false;
  };

  // `maker` outlives it.
  Tree(files::File root, std::unique_ptr<Handles> handles, const HandleMaker& maker,
       const Settings& settings);

  const InnerHandle& root() const noexcept { return root_handle_; }
  OpenFiles& open_files() noexcept { return open_; }
  Handles& handles() noexcept { return *handles_; }
  Listings& listings() noexcept { return listings_; }
  bool has_stable_positions() const noexcept { return has_stable_positions_; }
  // Returns whether calls may be tried in impatience: this file system answers from memory without
  // waiting.
  bool may_answer_at_once() const noexcept { return may_answer_at_once_; }
  const files::QuickReads& quick_reads() const noexcept { return quick_reads_; }
  std::uint64_t fsid() const noexcept { return settings_.fsid; }
  const FileSystemLimits& limits() const noexcept { return limits_; }

  Found find(const nfs3::nfs_fh3& handle);
  Found find_directory(const nfs3::nfs_fh3& handle);
  // Finds the entry of a directory; also "." and "..".
  Found entry(const Caller& caller, const Found& directory, const std::string& name);
  // Makes a Found of a file that was just opened with O_PATH, and found in the directory under the
  // name.
  Found known(files::File opened, const Found& directory, const std::string& name);
  nfs3::nfs_fh3 sealed(const InnerHandle& handle) const { return maker_.seal(handle.view()); }
  // Returns the file's attributes as they are now; none if there is no file.
  nfs3::post_op_attr attributes_now(const Found& file) const;

  // Rights. Where the kernel will look itself, the last two find nothing wrong.
  nfs3::nfsstat3 may(const Caller& caller, const Found& file, unsigned rights) const;
  nfs3::nfsstat3 may_change_entries(const Caller& caller, const Found& directory) const;
  nfs3::nfsstat3 may_take_away(const Caller& caller, const Found& directory,
                               const std::string& name) const;

  // Changes of a file's or a directory's attributes, one at a time: those from before and from
  // after a change belong together then.
  std::mutex& lock_of(const InnerHandle& handle) noexcept;
  // Opens what settle() needs, before the change: one that was made is not to fail for want of
  // descriptors, since the client would make it again. False: errno.
  bool prepare_to_settle(const Found& file);
  // Waits until a change is on the disk, unless the export is asynchronous. False: errno. Call it
  // without a lock: the disk may have much to write, and others wait for the lock.
  bool settle(const Found& file);

  // The verifier of WRITE and COMMIT.
  nfs3::writeverf3 verifier() const noexcept;
  // Makes clients write again all that they have not committed, since it may be lost.
  void change_verifier() noexcept;

 private:
  Found again(const Found& directory);
  Found parent_of(const Found& directory);
  Found far_parent_of(const Found& directory, const std::string& top);

  const files::File root_;
  const std::unique_ptr<Handles> handles_;
  const HandleMaker& maker_;
  const Settings settings_;
  const bool has_stable_positions_;
  const files::QuickReads quick_reads_;
  const bool may_answer_at_once_;
  const FileSystemLimits limits_;
  const files::File top_;  // root_ for syncfs(2), where the server may be refused a file
  InnerHandle root_handle_;
  OpenFiles open_;
  Listings listings_;
  std::atomic<std::uint64_t> verifier_;
  std::array<std::mutex, 64> locks_;
};

// The change of one directory: locked until end(), with its attributes from before. The directory
// can be settled after it.
class DirectoryChange {
 public:
  DirectoryChange(Tree& tree, const nfs3::nfs_fh3& handle);
  // The lock is held by another change of the same operation, or taken there.
  DirectoryChange(Tree& tree, Found directory);

  explicit operator bool() const noexcept { return static_cast<bool>(directory_); }
  nfs3::nfsstat3 error() const noexcept { return directory_.error; }
  const Found& directory() const noexcept { return directory_; }
  // Adds the attributes from after the change.
  nfs3::wcc_data attributes() const;
  // Ends the change, and returns its attributes: changes of others are not in them.
  nfs3::wcc_data end();
  // Begins another change of the same directory.
  void begin_again();

 private:
  void prepare();

  Tree& tree_;
  Found directory_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_TREE_H_
