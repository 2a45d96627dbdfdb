#include "nfs/client/uploader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include "nfs/client/temporary_name.h"

namespace nfs {
namespace {

using nfs3::nfsstat3;
using rpcrdma::Task;
using rpcrdma::Unexpected;

bool is_answer(const Failure& why, nfsstat3 status) {
  return !why.error && why.local.empty() && why.status == status;
}

// Whether the directory takes no new file, although one that is there may be written.
bool may_write_only_what_is_there(const Failure& why) {
  return is_answer(why, nfsstat3::NFS3ERR_ACCES) || is_answer(why, nfsstat3::NFS3ERR_PERM);
}

bool has_permissions(const nfs3::fattr3& attributes, std::uint32_t mode) {
  return Kept::of(attributes).mode == mode;
}

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
  while (const dirent* const entry = ::readdir(stream.get())) {
    if (is_safe_name(entry->d_name)) names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace

Task<void> Uploader::all(const std::vector<std::string>& sources, const std::string& target) {
  std::string name;
  auto found = co_await target_folder(target, sources.size() == 1, name);
  if (!found) {
    fail(target, found.error());
    co_return;
  }
  auto top = std::make_unique<Folder>();
  top->there = found->handle;
  top->target_id = found->attributes.fileid;
  const std::size_t slash = name.empty() ? target.size() : target.rfind('/');
  top->to = slash == std::string::npos ? "" : path_to(target.substr(0, slash));
  Folder& into = *top.release();  // the last who leaves frees it
  for (const std::string& each : sources) {
    if (has_stopped()) break;
    Source source{AT_FDCWD, each, each, !options().recursive};
    std::string as = name.empty() ? name_of(each) : name;
    co_await any(std::move(source), into, std::move(as));
  }
  leave(into);
}

// Into which directory, and as what if it is no directory itself.
Task<Result<Node>> Uploader::target_folder(const std::string& target, bool is_alone,
                                           std::string& name) {
  const auto find = [&] { return server().look_up_path(target); };
  auto found = co_await patiently(find);
  const bool is_folder = found && found->attributes.type == nfs3::ftype3::NF3DIR;
  if (is_folder) co_return found;
  if (!found && !is_answer(found.error(), nfsstat3::NFS3ERR_NOENT)) co_return found;
  if (!is_alone)
    co_return Unexpected<Failure>(Failure::here("it is no directory, which several sources need"));
  const std::size_t slash = target.rfind('/');
  name = target.substr(slash == std::string::npos ? 0 : slash + 1);
  const std::string above = slash == std::string::npos ? "" : target.substr(0, slash);
  const auto find_above = [&] { return server().look_up_path(above); };
  auto parent = co_await patiently(find_above);
  if (parent && parent->attributes.type != nfs3::ftype3::NF3DIR) {
    co_return Unexpected<Failure>(Failure::here("what it is to be in is no directory"));
  }
  co_return parent;
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
  auto made = std::make_unique<Folder>();
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (source.follow ? 0 : O_NOFOLLOW);
  made->here = files::File(::openat(source.directory, source.name.c_str(), flags));
  if (!made->here.is_open()) {
    fail_here(source.path, "it cannot be read");
    co_return;
  }
  // Listed before there is anything new in it.
  const auto names = names_in(made->here.descriptor());
  const int listed_errno = errno;
  if (co_await is_copied_into(made->here.descriptor(), status.st_ino, &into)) {
    fail(source.path, Failure::here("a directory cannot be copied into itself"));
    co_return;
  }
  made->there = into.there;
  made->target_id = into.target_id;
  made->to = into.to;
  if (!name.empty()) {  // else its content goes into the target itself
    const Kept kept = wanted(Kept::of(status));
    // Writable until its content is complete.
    const auto make = [&] { return server().make_directory(into.there, name, kept.mode | 0700U); };
    auto there = co_await patiently(make);
    if (!there && is_answer(there.error(), nfsstat3::NFS3ERR_EXIST)) {
      fail(into.to + name, Failure::here("it is no directory, and " + source.path + " is one"));
      co_return;
    }
    if (!there) {
      fail(source.path, there.error());
      co_return;
    }
    made->there = there->node.handle;
    made->target_id = there->node.attributes.fileid;
    made->to = into.to + name + "/";
    if (co_await is_copied_into(made->here.descriptor(), status.st_ino, made.get())) {
      fail(source.path, Failure::here("it is the directory that it would be copied to"));
      co_return;
    }
    made->is_new = there->is_new;
    const bool has_mode = has_permissions(there->node.attributes, kept.mode);
    if (options().keep || (made->is_new && !has_mode)) made->kept = kept;
    begin_folder(source.path, into.to + name, made->is_new);
  }
  made->path = path_to(source.path);
  made->parent = &into;
  made->depth = into.depth + 1;
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
  for (; into != nullptr; into = into->parent) {
    if (into->target_id == id && co_await is_same(here, into->there)) co_return true;
  }
  co_return false;
}

Task<void> Uploader::content(Folder& folder, const std::vector<std::string>& names) {
  for (const std::string& each : names) {
    if (has_stopped()) co_return;
    Source source{folder.here.descriptor(), each, folder.path + each, false};
    std::string name = each;
    co_await any(std::move(source), folder, std::move(name));
  }
}

Task<void> Uploader::finish(Folder& folder) {
  auto done = co_await set(folder.there, *folder.kept);
  if (!done) fail(folder.path, done.error());
}

// --- Files and links ----------------------------------------------------------------------------

Task<Result<void>> Uploader::move_content(FileJob& job) {
  auto there = co_await there_now(job);
  if (!there) co_return Unexpected<Failure>(there.error());
  if (options().no_clobber && *there != There::kNothing) {
    job.has_stayed = true;
    co_return Result<void>();
  }
  if (*there == There::kOther) co_return co_await create(job, job.name);  // the server says why not
  const std::string temporary = temporary_name(job.name);
  auto made = co_await create(job, temporary);
  if (made) {
    auto filled = co_await fill(job);
    co_return co_await put_in_place(*job.into, temporary, job.name, std::move(filled));
  }
  if (*there != There::kFile || !may_write_only_what_is_there(made.error())) co_return made;
  made = co_await create(job, job.name);
  if (!made) co_return made;
  ++result().in_place;
  if (!options().keep) job.has_mode = true;  // of its own, which may be another one's to set
  co_return co_await fill(job);
}

Task<Result<Uploader::There>> Uploader::there_now(FileJob& job) {
  const Folder& into = *job.into;
  if (into.is_new) co_return There::kNothing;
  const auto find = [&] { return server().look_up(into.there, job.name); };
  auto found = co_await patiently(find);
  if (!found && is_answer(found.error(), nfsstat3::NFS3ERR_NOENT)) co_return There::kNothing;
  if (!found) co_return Unexpected<Failure>(found.error());
  if (found->attributes.type != nfs3::ftype3::NF3REG) co_return There::kOther;
  if (!options().keep) job.kept.mode = Kept::of(found->attributes).mode;
  co_return There::kFile;
}

Task<Result<void>> Uploader::create(FileJob& job, const std::string& name) {
  // Nobody reads it who may not read it when it is whole.
  const std::uint32_t mode = options().keep ? 0600U : job.kept.mode | 0600U;
  const auto make = [&] { return server().create(job.into->there, name, mode, job.route); };
  auto made = co_await patiently(make);
  if (!made) co_return Unexpected<Failure>(made.error());
  job.has_mode = has_permissions(made->attributes, job.kept.mode);
  job.there = made->handle;
  co_return Result<void>();
}

Task<Result<void>> Uploader::fill(FileJob& job) {
  auto done = co_await write_and_commit(job);
  if (done && options().verify) done = co_await transfer(job, Step::kCompare);
  if (!done || (job.has_mode && !options().keep)) co_return done;
  co_return co_await set(job.there, job.kept, job.route);
}

Task<Result<void>> Uploader::put_in_place(const Folder& into, const std::string& temporary,
                                          const std::string& name, Result<void> done) {
  if (done) {
    const auto move = [&] { return server().rename(into.there, temporary, into.there, name); };
    done = co_await patiently(move);
  }
  if (done) co_return done;
  // Where calls fail, removing would wait for as long once more.
  bool is_gone = false;
  if (!done.error().error) {
    const auto take_away = [&] { return server().remove(into.there, temporary, false); };
    is_gone = (co_await patiently(take_away)).has_value();
  }
  if (!is_gone) ++result().parts_left;
  co_return done;
}

Task<Result<void>> Uploader::set(const nfs3::nfs_fh3& there, const Kept& kept, Route route) {
  const nfs3::sattr3 attributes = kept.to_server();
  const auto make = [&] { return server().set(there, attributes, route); };
  co_return co_await patiently(make);
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
  auto made = co_await make_link(into, name, target);
  const bool has_stayed =
      options().no_clobber && !made && is_answer(made.error(), nfsstat3::NFS3ERR_EXIST);
  if (made || has_stayed) {
    end_link(source.path, into, name, has_stayed);
  } else {
    fail(source.path, made.error());
  }
}

Task<Result<void>> Uploader::make_link(const Folder& into, const std::string& name,
                                       const std::string& target) {
  const auto make = [&] { return server().make_symbolic_link(into.there, name, target); };
  auto made = co_await patiently(make);
  if (made || options().no_clobber || !is_answer(made.error(), nfsstat3::NFS3ERR_EXIST)) {
    co_return made;
  }
  // In place of what is there, unless that is a directory.
  const std::string temporary = temporary_name(name);
  const auto make_beside = [&] {
    return server().make_symbolic_link(into.there, temporary, target);
  };
  made = co_await patiently(make_beside);
  if (!made) co_return made;
  co_return co_await put_in_place(into, temporary, name, std::move(made));
}

}  // namespace nfs
