#include "nfs/client/uploader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <utility>

namespace nfs {
namespace {

using rpcrdma::Task;

// nullopt: errno.
std::optional<std::vector<std::string>> names_in(int directory) {
  // With a place of its own in the directory, and closed with the stream.
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), &::closedir);
  if (stream == nullptr) {
    ::close(own);
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    if (is_safe_name(entry->d_name)) names.emplace_back(entry->d_name);
  }
  if (errno != 0) return std::nullopt;  // the names so far are not all
  return names;
}

}  // namespace

Task<void> Uploader::all(const std::vector<std::string>& sources, const std::string& target) {
  std::string name;
  Folder* const top = co_await open_target(target, sources.size() == 1, name);
  if (top == nullptr) co_return;
  Folder& into = *top;
  for (const std::string& each : sources) {
    if (has_stopped()) break;
    Source source{AT_FDCWD, each, each, !options().recursive};
    std::string as = name.empty() ? name_of(each) : name;
    co_await any(std::move(source), into, std::move(as));
  }
  leave(into);
}

Task<void> Uploader::any(Source source, Folder& into, std::string name) {
  struct stat status {};
  if (::fstatat(source.directory, source.name.c_str(), &status,
                source.follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    fail_here(source.path, "it cannot be read");
    co_return;
  }
  if (S_ISDIR(status.st_mode)) {
    co_await folder(source, status, into, name);
    co_return;
  }
  if (S_ISLNK(status.st_mode)) {
    co_await link(source, into, name);
    co_return;
  }
  if (!S_ISREG(status.st_mode)) {
    skip(source.path, into);
    co_return;
  }
  co_await file_slots().take();
  auto job = std::make_unique<FileJob>();
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (source.follow ? 0 : O_NOFOLLOW);
  job->here = files::File(::openat(source.directory, source.name.c_str(), flags));
  // It may be another file now.
  if (!job->here.is_open() || ::fstat(job->here.descriptor(), &status) != 0 ||
      !S_ISREG(status.st_mode)) {
    fail_here(source.path, "it cannot be opened");
    file_slots().give_back();
    co_return;
  }
  job->size = static_cast<std::uint64_t>(status.st_size);
  job->source_id = status.st_ino;
  job->kept = wanted(Kept::of(status));
  job->skips_zeros = options().sparse == Sparse::kAlways;
  job->name = std::move(name);
  job->path = std::move(source.path);
  job->into = &into;
  job->route = know_of(job->size);
  enter(into);
  turns().begin(file(std::move(job)));
}

// --- Directories --------------------------------------------------------------------------------

Task<void> Uploader::folder(const Source& source, const struct stat& status, Folder& into,
                            const std::string& name) {
  if (!options().recursive) {
    fail(source.path, Failure::here("it is a directory, which is copied by -r only"));
    co_return;
  }
  if (into.depth >= kDepthMax) {
    fail(source.path, Failure::here("directories are too deep here"));
    co_return;
  }
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (source.follow ? 0 : O_NOFOLLOW);
  files::File here(::openat(source.directory, source.name.c_str(), flags));
  if (!here.is_open()) {
    fail_here(source.path, "it cannot be read");
    co_return;
  }
  // Listed before there is anything new in it.
  const auto names = names_in(here.descriptor());
  const int listed_errno = errno;
  if (co_await is_copied_into(here.descriptor(), status.st_ino, &into)) {
    fail(source.path, Failure::here("a directory cannot be copied into itself"));
    co_return;
  }
  const Kept kept = Kept::of(status);
  auto made = co_await make_folder(kept, into, name, source.path);
  if (made == nullptr) co_return;
  if (co_await is_copied_into(here.descriptor(), status.st_ino, made.get())) {
    fail(source.path, Failure::here("it is the directory that it would be copied to"));
    co_return;
  }
  made->here = std::move(here);
  made->parent = &into;
  enter(into);
  Folder& folder = *made.release();
  if (names) {
    co_await content(folder, *names);
  } else {
    errno = listed_errno;
    fail_here(folder.path, "it cannot be listed");
  }
  leave(folder);
}

Task<bool> Uploader::is_copied_into(int here, std::uint64_t id, const Folder* into) {
  bool is_found = false;
  for (const Folder* each = into; each != nullptr && !is_found; each = each->parent) {
    if (each->target_id == id) is_found = co_await is_same(here, each->there);
  }
  co_return is_found;
}

Task<void> Uploader::content(Folder& folder, const std::vector<std::string>& names) {
  for (const std::string& each : names) {
    if (has_stopped()) co_return;
    Source source{folder.here.descriptor(), each, folder.path + each, false};
    std::string name = each;
    co_await any(std::move(source), folder, std::move(name));
  }
}

// --- Files and links ----------------------------------------------------------------------------

Task<bool> Uploader::is_source(const FileJob& job, const nfs3::nfs_fh3& there) {
  co_return co_await is_same(job.here.descriptor(), there);
}

Task<void> Uploader::link(const Source& source, Folder& into, const std::string& name) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size =
      ::readlinkat(source.directory, source.name.c_str(), text.data(), text.size());
  if (size < 0) {
    fail_here(source.path, "the link cannot be read");
    co_return;
  }
  const std::string target(text.data(), static_cast<std::size_t>(size));
  co_await put_link(target, into, name, source.path);
}

}  // namespace nfs
