#include "nfs/client/downloader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "nfs/client/temporary_name.h"

namespace nfs {
namespace {

using rpcrdma::Task;
using rpcrdma::Unexpected;

constexpr int kTemporaryTries = 100;

// Makes something of a name that nothing has; the function says whether it has, or errno.
template <class Make>
std::optional<std::string> make_temporary(const std::string& name, Make make) {
  for (int i = 0; i < kTemporaryTries; ++i) {
    std::string text = temporary_name(name);
    if (make(text.c_str())) return text;
    if (errno != EEXIST) break;
  }
  return std::nullopt;
}

std::string link_to(const files::File& file) {
  return "/proc/self/fd/" + std::to_string(file.descriptor());
}

// It goes when this process does, however that ends. Not every file system has such files, and
// without /proc none could be given a name.
files::File unnamed_file(int directory) {
  files::File made(::openat(directory, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (made.is_open() && ::access(link_to(made).c_str(), F_OK) != 0) return files::File();
  return made;
}

// nullopt: there is nothing, or errno says why not.
std::optional<struct stat> status_of(int directory, const std::string& name) {
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return status;
}

// A device, a FIFO or a socket, whose name no file may take.
bool is_special(int directory, const std::string& name) {
  const auto status = status_of(directory, name);
  return status && !S_ISREG(status->st_mode) && !S_ISLNK(status->st_mode) &&
         !S_ISDIR(status->st_mode);
}

// Some file systems cannot rename without replacing; the caller has looked for the name before.
bool rename_to(int directory, const std::string& from, const std::string& to, bool may_replace) {
  if (!may_replace) {
    const int done = ::renameat2(directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE);
    if (done == 0 || errno != EINVAL) return done == 0;
  }
  return ::renameat(directory, from.c_str(), directory, to.c_str()) == 0;
}

std::uint64_t inode_of(const files::File& file) {
  const auto status = file.status();
  return status ? status->st_ino : 0;
}

// Gives what was made its name; it goes away if that fails.
bool put_in_place(int directory, const std::string& temporary, const std::string& name,
                  bool may_replace = true) {
  const bool is_free = !is_special(directory, name);
  if (!is_free) errno = EEXIST;
  if (is_free && rename_to(directory, temporary, name, may_replace)) return true;
  const int why = errno;
  ::unlinkat(directory, temporary.c_str(), 0);
  errno = why;
  return false;
}

}  // namespace

Task<void> Downloader::all(const std::vector<std::string>& sources, const std::string& target) {
  std::string name;
  auto top = target_folder(target, sources.size() == 1, name);
  if (top == nullptr) co_return;
  top->target_id = inode_of(top->here);
  const std::size_t slash = name.empty() ? target.size() : target.rfind('/');
  top->to = slash == std::string::npos ? "" : path_to(target.substr(0, slash + 1));
  Folder& into = *top.release();  // the last who leaves frees it
  for (const std::string& each : sources) {
    if (has_stopped()) break;
    const auto find = [&] { return server().look_up_path(each, !options().recursive); };
    auto found = co_await patiently(find);
    if (!found) {
      fail(each, found.error());
      continue;
    }
    // The export itself has the name of its last directory.
    std::string as = !name.empty() ? name : name_of(each.empty() ? server().url().path : each);
    std::string path = each;
    co_await any(std::move(*found), into, std::move(as), std::move(path));
  }
  leave(into);
}

std::unique_ptr<Folder> Downloader::target_folder(const std::string& given, bool is_alone,
                                                  std::string& name) {
  // A symbolic link that the user names stays, and what it leads to is replaced.
  std::error_code error;
  const bool is_link = std::filesystem::is_symlink(given, error);
  const std::string led = is_link ? std::filesystem::canonical(given, error).string() : given;
  if (error && is_link) {
    fail(given, Failure::here("it is a symbolic link to nothing"));
    return nullptr;
  }
  const std::string& target = led;
  auto made = std::make_unique<Folder>();
  constexpr int kFlags = O_RDONLY | O_DIRECTORY;
  made->here = files::File(target, kFlags);
  if (made->here.is_open()) return made;
  if (errno != ENOENT && errno != ENOTDIR) {
    fail_here(target, "it cannot be opened");
    return nullptr;
  }
  name = name_of(target);
  if (!is_alone || name.empty() || target.ends_with('/')) {
    fail(target, Failure::here("it is no directory"));
    return nullptr;
  }
  const std::size_t slash = target.rfind('/');
  const std::string above = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  made->here = files::File(above, kFlags);
  if (made->here.is_open()) return made;
  fail_here(above, "it cannot be opened");
  return nullptr;
}

Task<void> Downloader::any(Node node, Folder& into, std::string name, std::string path) {
  using nfs3::ftype3;
  if (node.attributes.type == ftype3::NF3DIR) {
    co_await folder(node, into, name, path);
    co_return;
  }
  if (node.attributes.type == ftype3::NF3LNK) {
    co_await link(node, into, name, path);
    co_return;
  }
  if (node.attributes.type != ftype3::NF3REG) {
    skip(path, into);
    co_return;
  }
  co_await file_slots().take();
  auto job = std::make_unique<FileJob>();
  job->there = std::move(node.handle);
  job->source_id = node.attributes.fileid;
  job->size = node.attributes.size;
  job->kept = wanted(Kept::of(node.attributes));
  job->skips_zeros = options().sparse == Sparse::kAlways ||
                     (options().sparse == Sparse::kAuto && node.attributes.used < job->size);
  job->name = std::move(name);
  job->path = std::move(path);
  job->into = &into;
  job->route = know_of(job->size);
  enter(into);
  turns().begin(file(std::move(job)));
}

// --- Directories --------------------------------------------------------------------------------

Task<void> Downloader::folder(const Node& node, Folder& into, const std::string& name,
                              const std::string& path) {
  if (!options().recursive) {
    fail(path, Failure::here("it is a directory, which is copied by -r only"));
    co_return;
  }
  if (into.depth >= kDepthMax) {
    fail(path, Failure::here("directories are too deep here"));
    co_return;
  }
  if (co_await is_copied_into(node, &into)) {
    fail(path, Failure::here("a directory cannot be copied into itself"));
    co_return;
  }
  // Listed before there is anything new in it.
  const auto list = [&] { return server().list(node.handle); };
  auto listed = co_await patiently(list);
  auto made = make_folder(node, into, name, path);
  if (made == nullptr) co_return;
  if (co_await is_copied_into(node, made.get())) {
    fail(path, Failure::here("it is the directory that it would be copied to"));
    co_return;
  }
  if (!name.empty()) begin_folder(path, into.to + name, made->is_new);
  enter(into);
  Folder& folder = *made.release();
  if (listed) {
    co_await content(folder, *listed);
  } else {
    fail(folder.path, listed.error());
  }
  leave(folder);
}

std::unique_ptr<Folder> Downloader::make_folder(const Node& node, Folder& into,
                                                const std::string& name, const std::string& path) {
  auto made = std::make_unique<Folder>();
  const int above = into.here.descriptor();
  const Kept kept = wanted(Kept::of(node.attributes));
  // The export "/" has no name; its content goes into the target itself.
  const char* const as = name.empty() ? "." : name.c_str();
  // Writable until its content is complete.
  const std::uint32_t mode = options().keep ? 0700U : kept.mode | 0700U;
  made->is_new = !name.empty() && ::mkdirat(above, as, mode) == 0;
  if (!name.empty() && !made->is_new && errno != EEXIST) {
    fail_here(path, "the directory cannot be made here");
    return nullptr;
  }
  made->here = files::File(::openat(above, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  // Linux gives ENOTDIR for a symbolic link, too.
  if (!made->here.is_open() && errno == ENOTDIR) {
    fail(into.to + name, Failure::here("it is no directory, and " + path + " is one"));
    return nullptr;
  }
  if (!made->here.is_open()) {
    fail_here(path, "the directory cannot be opened here");
    return nullptr;
  }
  const bool is_kept = options().keep && !name.empty();
  if (is_kept || (made->is_new && mode != kept.mode)) made->kept = kept;
  made->target_id = inode_of(made->here);
  made->to = name.empty() ? into.to : into.to + name + "/";
  made->there = node.handle;
  made->path = path_to(path);
  made->parent = &into;
  made->depth = into.depth + 1;
  return made;
}

Task<bool> Downloader::is_copied_into(const Node& node, const Folder* into) {
  bool is_found = false;
  for (const Folder* each = into; each != nullptr && !is_found; each = each->parent) {
    if (each->target_id != node.attributes.fileid) continue;
    is_found = co_await is_same(each->here.descriptor(), node.handle);
  }
  co_return is_found;
}

Task<void> Downloader::content(Folder& folder, std::vector<Listed>& listed) {
  for (Listed& each : listed) {
    if (has_stopped()) co_return;
    co_await entry(each, folder);
  }
}

Task<void> Downloader::entry(Listed& listed, Folder& folder) {
  std::string path = folder.path + listed.name;
  if (!is_safe_name(listed.name)) {
    fail(path, Failure::here("the server sent a name that no file can have"));
    co_return;
  }
  if (!listed.node) {
    const auto make = [&] { return server().look_up(folder.there, listed.name); };
    auto found = co_await patiently(make);
    if (!found) {
      fail(path, found.error());
      co_return;
    }
    listed.node = std::move(*found);
  }
  Node node = std::move(*listed.node);
  std::string name = listed.name;
  co_await any(std::move(node), folder, std::move(name), std::move(path));
}

Task<void> Downloader::finish(Folder& folder) {
  if (!folder.kept->set_here(folder.here.descriptor())) {
    fail_here(folder.path, "its mode and times cannot be set here");
  }
  co_return;
}

// --- Files and links ----------------------------------------------------------------------------

Task<Result<void>> Downloader::move_content(FileJob& job) {
  const int directory = job.into->here.descriptor();
  const auto there = status_of(directory, job.name);
  job.has_stayed = there && options().no_clobber;
  if (job.has_stayed) co_return Result<void>();
  if (there && S_ISREG(there->st_mode) && there->st_ino == job.source_id) {
    const files::File target(
        ::openat(directory, job.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (target.is_open() && co_await is_same(target.descriptor(), job.there)) {
      co_return Unexpected<Failure>(same_file(job.into->to + job.name));
    }
  }
  if (there && S_ISREG(there->st_mode) && !options().keep) job.kept.mode = Kept::of(*there).mode;
  if (is_special(directory, job.name)) {
    co_return Unexpected<Failure>(Failure::here(
        "the destination is not a regular file and is not replaced; use cat to write to it"));
  }
  job.here = unnamed_file(directory);
  std::optional<std::string> temporary;
  if (!job.here.is_open()) {
    temporary = make_temporary(job.name, [&](const char* text) {
      job.here = files::File(
          ::openat(directory, text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      return job.here.is_open();
    });
  }
  if (!job.here.is_open()) co_return failed_here("it cannot be written here");
  auto done = co_await transfer(job, Step::kRead);
  const auto size = static_cast<off_t>(job.size);
  if (done && job.has_holes && ::ftruncate(job.here.descriptor(), size) != 0) {
    done = failed_here("its size cannot be set here");
  }
  if (done && options().verify) done = co_await transfer(job, Step::kCompare);
  // In front of its times, which the flush may set.
  if (done && !job.here.flush()) done = failed_here("it cannot be written here");
  if (done && !job.kept.set_here(job.here.descriptor())) {
    done = failed_here("its mode and times cannot be set here");
  }
  if (!done) {
    if (temporary) ::unlinkat(directory, temporary->c_str(), 0);
    co_return done;
  }
  if (!give_name(job, std::move(temporary))) co_return failed_here("it cannot be written here");
  co_return done;
}

// `temporary`: the name that it has now, if it has one. False: errno.
bool Downloader::give_name(FileJob& job, std::optional<std::string> temporary) {
  const int directory = job.into->here.descriptor();
  const bool may_replace = !options().no_clobber;
  if (!temporary) {
    const auto link = [&](const char* text) {
      return ::linkat(AT_FDCWD, link_to(job.here).c_str(), directory, text, AT_SYMLINK_FOLLOW) == 0;
    };
    if (link(job.name.c_str())) return true;  // nothing had it
    job.has_stayed = errno == EEXIST && !may_replace;
    if (!may_replace) return job.has_stayed;
    temporary = make_temporary(job.name, link);
  }
  if (temporary && put_in_place(directory, *temporary, job.name, may_replace)) return true;
  job.has_stayed = temporary && errno == EEXIST && !may_replace;
  return job.has_stayed;
}

Task<void> Downloader::link(const Node& node, Folder& into, const std::string& name,
                            const std::string& path) {
  const auto make = [&] { return server().read_link(node.handle); };
  auto target = co_await patiently(make);
  if (!target) {
    fail(path, target.error());
    co_return;
  }
  if (target->empty() || target->find('\0') != std::string::npos) {
    fail(path, Failure::here("the server sent a link to nothing that a file can be"));
    co_return;
  }
  const int directory = into.here.descriptor();
  if (options().no_clobber && status_of(directory, name)) {
    end_link(path, into, name, true);
    co_return;
  }
  const auto temporary = make_temporary(
      name, [&](const char* text) { return ::symlinkat(target->c_str(), directory, text) == 0; });
  const Kept kept = Kept::of(node.attributes);
  const timespec times[2] = {kept.atime, kept.mtime};
  const auto set_times = [&] {
    return !options().keep ||
           ::utimensat(directory, temporary->c_str(), times, AT_SYMLINK_NOFOLLOW) == 0;
  };
  if (!temporary || !set_times() || !put_in_place(directory, *temporary, name)) {
    fail_here(path, "the link cannot be made here");
    co_return;
  }
  end_link(path, into, name, false);
}

}  // namespace nfs
