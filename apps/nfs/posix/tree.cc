#include "nfs/posix/tree.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <optional>
#include <random>
#include <utility>

#include "nfs/back_end/attributes.h"
#include "nfs/posix/beneath.h"
#include "nfs/posix/impatience.h"
#include "nfs/posix/system_limits.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;

std::uint64_t random_number() {
  std::random_device source;
  return std::uint64_t{source()} << 32U | source();
}

Found none(nfsstat3 error) {
  Found found;
  found.error = error;
  return found;
}

bool has_content(const Found& file) {
  return S_ISDIR(file.status.st_mode) || S_ISREG(file.status.st_mode);
}

// Returns where an open directory is, as the kernel sees it. nullopt: errno, ENAMETOOLONG for what
// is longer than the kernel says.
std::optional<std::string> path_of(const files::File& file) {
  std::array<char, PATH_MAX> text;
  const std::string link = "/proc/self/fd/" + std::to_string(file.descriptor());
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size >= 0 && static_cast<std::size_t>(size) == text.size()) errno = ENAMETOOLONG;
  if (size <= 0 || static_cast<std::size_t>(size) == text.size()) return std::nullopt;
  return std::string(text.data(), static_cast<std::size_t>(size));
}

// Says whether the directory is below `top` (a path of the kernel) or is it. Where its path is too
// long for the kernel, one above it answers: it is so many levels up that the path still begins
// with `top` there if it does so at all, since each level has at most 256 bytes of it.
nfsstat3 must_be_below(const std::string& top, const files::File& directory) {
  constexpr std::size_t kLevelMax = NAME_MAX + 1;
  const std::size_t levels = std::max<std::size_t>((PATH_MAX - 1 - top.size()) / kLevelMax, 1);
  std::string up = "..";
  for (std::size_t i = 1; i < levels; ++i) up += "/..";
  auto path = path_of(directory);
  files::File above;
  while (!path && errno == ENAMETOOLONG) {
    const int from = above.is_open() ? above.descriptor() : directory.descriptor();
    above = files::File(::openat(from, up.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (above.is_open()) path = path_of(above);
  }
  if (!path) return status_of(errno);
  const std::string prefix = top == "/" ? top : top + "/";
  return *path == top || path->starts_with(prefix) ? nfsstat3::NFS3_OK : nfsstat3::NFS3ERR_STALE;
}

}  // namespace

Tree::Tree(files::File root, std::unique_ptr<Handles> handles, const HandleMaker& maker,
           const Settings& settings)
    : root_(std::move(root)),
      handles_(std::move(handles)),
      maker_(maker),
      settings_(settings),
      has_stable_positions_(posix::has_stable_positions(root_)),
      quick_reads_(root_.descriptor()),
      may_answer_at_once_(handles_->is_quick() && quick_reads_.keeps_inodes()),
      limits_(limits_of(root_)),
      top_(can_take_identities() ? files::File() : reopened(root_, O_RDONLY | O_DIRECTORY)),
      root_handle_(handles_->of(root_, {}, {}).value_or(InnerHandle())),
      open_(*handles_, settings.open_files_max, [this] { change_verifier(); }),
      verifier_(random_number()) {}

Found Tree::find(const nfs3::nfs_fh3& handle) {
  Found found;
  found.file = open_.find(InnerHandle::of(handle.data));
  if (!found.file) return none(status_of(errno == ENOENT ? ESTALE : errno));
  if (::fstat(found.descriptor(), &found.status) != 0) return none(status_of(errno));
  if (found.status.st_nlink == 0) {  // removed, and only open here
    open_.forget(found.file->handle());
    return none(nfsstat3::NFS3ERR_STALE);
  }
  return found;
}

Found Tree::find_directory(const nfs3::nfs_fh3& handle) {
  Found found = find(handle);
  if (found && !S_ISDIR(found.status.st_mode)) return none(nfsstat3::NFS3ERR_NOTDIR);
  return found;
}

Found Tree::entry(const Caller& caller, const Found& directory, const std::string& name) {
  if (!can_take_identities() && !permits(directory.status, caller, kExecute)) {
    return none(nfsstat3::NFS3ERR_ACCES);
  }
  if (name == "." || name == "..") {
    if (Impatience::is_on()) {
      Impatience::give_up();
      return none(nfsstat3::NFS3ERR_JUKEBOX);
    }
    if (const nfsstat3 refused = may(caller, directory, kExecute); refused != nfsstat3::NFS3_OK) {
      return none(refused);
    }
    return name == "." ? again(directory) : parent_of(directory);
  }
  files::File opened = open_beneath(directory.file->path(), name);
  if (!opened.is_open()) {
    // Another file system is mounted there, which is not exported.
    return none(errno == EXDEV ? nfsstat3::NFS3ERR_ACCES : status_of(errno));
  }
  return known(std::move(opened), directory, name);
}

Found Tree::known(files::File opened, const Found& directory, const std::string& name) {
  Found found;
  if (!opened.is_open() || ::fstat(opened.descriptor(), &found.status) != 0) {
    return none(status_of(errno));
  }
  const auto handle = handles_->of(opened, directory.file->handle(), name);
  if (!handle) return none(status_of(errno));
  found.file = open_.add(*handle, std::move(opened));
  return found;
}

Found Tree::again(const Found& directory) {
  Found found;
  found.file = open_.find(directory.file->handle());
  found.status = directory.status;
  return found.file ? std::move(found) : none(status_of(errno));
}

// Finds the parent by where the kernel says that the directory is: ".." of one that was moved out
// of the export would lead anywhere.
Found Tree::parent_of(const Found& directory) {
  nfs3::nfs_fh3 root;
  root.data.assign(root_handle_.view().begin(), root_handle_.view().end());
  if (directory.file->handle() == root_handle_) return find_directory(root);
  const AsServer as_server;
  const auto top = path_of(root_);
  if (!top) return none(nfsstat3::NFS3ERR_SERVERFAULT);
  const auto here = path_of(directory.file->path());
  if (!here) {
    return errno == ENAMETOOLONG ? far_parent_of(directory, *top)
                                 : none(nfsstat3::NFS3ERR_SERVERFAULT);
  }
  const std::string prefix = *top == "/" ? "/" : *top + "/";
  if (!here->starts_with(prefix)) return none(nfsstat3::NFS3ERR_STALE);
  const std::string below = here->substr(prefix.size());
  const std::size_t slash = below.rfind('/');
  if (slash == std::string::npos) return find_directory(root);
  files::File opened = open_directory_beneath(root_, below.substr(0, slash));
  // It is not where it was, or a file system was mounted over it.
  if (!opened.is_open()) return none(nfsstat3::NFS3ERR_STALE);
  return known(std::move(opened), directory, "..");
}

// The kernel does not say where the directory is, but ".." of it can be asked for the same. It is
// given out only if it is in the export.
Found Tree::far_parent_of(const Found& directory, const std::string& top) {
  files::File parent(
      ::openat(directory.descriptor(), "..", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!parent.is_open()) return none(status_of(errno == ENOENT ? ESTALE : errno));
  const nfsstat3 outside = must_be_below(top, parent);
  if (outside != nfsstat3::NFS3_OK) return none(outside);
  return known(std::move(parent), directory, "..");
}

nfs3::post_op_attr Tree::attributes_now(const Found& file) const {
  struct stat status {};
  if (!file.file || ::fstat(file.descriptor(), &status) != 0) return {};
  return after(status, settings_.fsid);
}

nfsstat3 Tree::may(const Caller& caller, const Found& file, unsigned rights) const {
  static_assert(kRead == R_OK && kWrite == W_OK && kExecute == X_OK);
  if (can_take_identities()) {
    // For others than the owner an access control list may have to be read, the first time.
    const bool is_owner = caller.uid == file.status.st_uid;
    if (Impatience::is_on() && !is_owner && !file.file->are_rights_known()) {
      Impatience::give_up();
      return nfsstat3::NFS3ERR_JUKEBOX;
    }
    constexpr int kFlags = AT_EMPTY_PATH | AT_EACCESS;
    const long result = ::syscall(SYS_faccessat2, file.descriptor(), "", rights, kFlags);
    if (!is_owner) file.file->set_rights_known();
    if (result == 0) return nfsstat3::NFS3_OK;
    if (errno != ENOSYS) return status_of(errno);
  }
  return permits(file.status, caller, rights) ? nfsstat3::NFS3_OK : nfsstat3::NFS3ERR_ACCES;
}

nfsstat3 Tree::may_change_entries(const Caller& caller, const Found& directory) const {
  if (can_take_identities() || permits(directory.status, caller, kWrite | kExecute)) {
    return nfsstat3::NFS3_OK;
  }
  return nfsstat3::NFS3ERR_ACCES;
}

nfsstat3 Tree::may_take_away(const Caller& caller, const Found& directory,
                             const std::string& name) const {
  const nfsstat3 refused = may_change_entries(caller, directory);
  if (refused != nfsstat3::NFS3_OK || can_take_identities()) return refused;
  if ((directory.status.st_mode & S_ISVTX) == 0 || caller.uid == 0) return refused;
  struct stat status {};
  if (::fstatat(directory.descriptor(), component(name), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return status_of(errno);
  }
  const bool owns = caller.uid == status.st_uid || caller.uid == directory.status.st_uid;
  return owns ? nfsstat3::NFS3_OK : nfsstat3::NFS3ERR_PERM;
}

std::mutex& Tree::lock_of(const InnerHandle& handle) noexcept {
  return locks_[HashOfHandle()(handle) % locks_.size()];
}

bool Tree::prepare_to_settle(const Found& file) {
  if (settings_.is_async || !has_content(file)) return true;
  return file.file->content(false) != nullptr || errno == EACCES || errno == EPERM;
}

bool Tree::settle(const Found& file) {
  if (settings_.is_async || !has_content(file)) return true;
  const files::File* const content = file.file->content(false);
  // The change may have taken the server's own right to open it.
  const bool is_closed = content == nullptr && (errno == EACCES || errno == EPERM);
  if (content == nullptr && !(is_closed && top_.is_open())) return false;
  // The kernel reports an error once: a COMMIT beside it would succeed by the verifier of before.
  std::unique_lock<std::mutex> commits;
  if (S_ISREG(file.status.st_mode)) commits = std::unique_lock(file.file->commits());
  if ((is_closed ? ::syncfs(top_.descriptor()) : ::fsync(content->descriptor())) == 0) return true;
  // Writes of others may be what failed, and the kernel says it once.
  const int error = errno;
  change_verifier();
  // A client that is asked to come back would make again what was made.
  errno = status_of(error) == nfsstat3::NFS3ERR_JUKEBOX ? EIO : error;
  return false;
}

nfs3::writeverf3 Tree::verifier() const noexcept {
  return std::bit_cast<nfs3::writeverf3>(verifier_.load());
}

void Tree::change_verifier() noexcept {
  ++verifier_;
}

DirectoryChange::DirectoryChange(Tree& tree, const nfs3::nfs_fh3& handle)
    : tree_(tree), directory_(tree.find_directory(handle)) {
  if (directory_) begin_again();
  prepare();
}

DirectoryChange::DirectoryChange(Tree& tree, Found directory)
    : tree_(tree), directory_(std::move(directory)) {
  if (directory_) (void)::fstat(directory_.descriptor(), &directory_.status);
  prepare();
}

void DirectoryChange::prepare() {
  if (directory_ && !tree_.prepare_to_settle(directory_)) directory_.error = status_of(errno);
}

void DirectoryChange::begin_again() {
  lock_ = std::unique_lock(tree_.lock_of(directory_.file->handle()));
  (void)::fstat(directory_.descriptor(), &directory_.status);
}

nfs3::wcc_data DirectoryChange::end() {
  nfs3::wcc_data data = attributes();
  if (lock_.owns_lock()) lock_.unlock();
  return data;
}

nfs3::wcc_data DirectoryChange::attributes() const {
  nfs3::wcc_data data;
  if (!directory_) return data;
  data.before = before(directory_.status);
  data.after = tree_.attributes_now(directory_);
  return data;
}

}  // namespace nfs::posix
