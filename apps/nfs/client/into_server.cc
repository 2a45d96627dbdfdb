#include "nfs/client/into_server.h"

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

// Returns whether the directory refuses new files, although existing ones may be writable.
bool may_write_only_what_is_there(const Failure& why) {
  return is_answer(why, nfsstat3::NFS3ERR_ACCES) || is_answer(why, nfsstat3::NFS3ERR_PERM);
}

// Returns whether hard links are impossible: the server or its file system has none, or it refuses
// them to this caller.
bool cannot_link(const Failure& why) {
  return is_answer(why, nfsstat3::NFS3ERR_NOTSUPP) || is_answer(why, nfsstat3::NFS3ERR_PERM) ||
         (why.error && why.error->code == rpcrdma::Errc::kNotAvailable);
}

bool has_permissions(const nfs3::fattr3& attributes, std::uint32_t mode) {
  return Kept::of(attributes).mode == mode;
}

}  // namespace

// The last who leaves frees it.
Task<Folder*> IntoServer::open_target(const std::string& target, bool is_alone, std::string& name) {
  auto found = co_await target_folder(target, is_alone, name);
  if (!found) {
    fail(target, found.error());
    co_return nullptr;
  }
  auto top = std::make_unique<Folder>();
  top->there = found->handle;
  top->target_id = found->attributes.fileid;
  const std::size_t slash = name.empty() ? target.size() : target.rfind('/');
  top->to = slash == std::string::npos ? "" : path_to(target.substr(0, slash));
  co_return top.release();
}

// Into which directory, and as what if it is no directory itself.
Task<Result<Node>> IntoServer::target_folder(const std::string& target, bool is_alone,
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
    co_return Unexpected<Failure>(Failure::here("its parent at the server is no directory"));
  }
  co_return parent;
}

// --- Directories --------------------------------------------------------------------------------

Task<std::unique_ptr<Folder>> IntoServer::make_folder(const Kept& source, const Folder& into,
                                                      const std::string& name,
                                                      const std::string& path) {
  auto made = std::make_unique<Folder>();
  made->path = path_to(path);
  made->depth = into.depth + 1;
  made->there = into.there;
  made->target_id = into.target_id;
  made->to = into.to;
  if (name.empty()) co_return made;  // its content goes into the target itself
  const Kept kept = wanted(source);
  // Writable until its content is complete.
  const auto make = [&] { return server().make_directory(into.there, name, kept.mode | 0700U); };
  auto there = co_await patiently(make);
  if (!there && is_answer(there.error(), nfsstat3::NFS3ERR_EXIST)) {
    fail(into.to + name, Failure::here("it is no directory, and " + path + " is one"));
    co_return nullptr;
  }
  if (!there) {
    fail(path, there.error());
    co_return nullptr;
  }
  made->there = there->node.handle;
  made->target_id = there->node.attributes.fileid;
  made->to = into.to + name + "/";
  made->is_new = there->is_new;
  const bool has_mode = has_permissions(there->node.attributes, kept.mode);
  if (options().keep || (made->is_new && !has_mode)) made->kept = kept;
  begin_folder(path, into.to + name, made->is_new);
  co_return made;
}

Task<void> IntoServer::finish(Folder& folder) {
  auto done = co_await set(folder.there, *folder.kept);
  if (!done) fail(folder.path, done.error());
}

// --- Files and links ----------------------------------------------------------------------------

Task<Result<void>> IntoServer::move_content(FileJob& job) {
  auto there = co_await there_now(job);
  if (!there) co_return Unexpected<Failure>(there.error());
  if (options().no_clobber && *there != There::kNothing) {
    job.has_stayed = true;
    co_return Result<void>();
  }
  if (*there == There::kOther) co_return co_await create(job, job.name);  // the server says why not
  if (*there == There::kSource) {
    co_return Unexpected<Failure>(same_file(job.into->to + job.name));
  }
  const std::string temporary = temporary_name(job.name);
  auto made = co_await create(job, temporary);
  if (made) {
    auto filled = co_await fill(job);
    if (filled && options().no_clobber) {
      auto is_named = co_await name_what_is_new(job, temporary);
      if (is_named && *is_named) co_return Result<void>();
      if (!is_named) filled = Unexpected<Failure>(is_named.error());
    }
    co_return co_await put_in_place(*job.into, temporary, job.name, std::move(filled));
  }
  if (*there != There::kFile || !may_write_only_what_is_there(made.error())) co_return made;
  made = co_await create(job, job.name);
  if (!made) co_return made;
  ++result().in_place;
  if (!options().keep) job.has_mode = true;  // of its own, which may be another one's to set
  co_return co_await fill(job);
}

Task<Result<IntoServer::There>> IntoServer::there_now(FileJob& job) {
  const Folder& into = *job.into;
  if (into.is_new) co_return There::kNothing;
  const auto find = [&] { return server().look_up(into.there, job.name); };
  auto found = co_await patiently(find);
  if (!found && is_answer(found.error(), nfsstat3::NFS3ERR_NOENT)) co_return There::kNothing;
  if (!found) co_return Unexpected<Failure>(found.error());
  if (found->attributes.type != nfs3::ftype3::NF3REG) co_return There::kOther;
  if (options().no_clobber) co_return There::kFile;
  if (found->attributes.fileid == job.source_id && co_await is_source(job, found->handle)) {
    co_return There::kSource;
  }
  if (!options().keep) job.kept.mode = Kept::of(found->attributes).mode;
  co_return There::kFile;
}

Task<Result<void>> IntoServer::create(FileJob& job, const std::string& name) {
  // Nobody reads it who may not read it when it is whole.
  const std::uint32_t mode = options().keep ? 0600U : job.kept.mode | 0600U;
  const auto make = [&] { return server().create(job.into->there, name, mode, job.route); };
  auto made = co_await patiently(make);
  if (!made) co_return Unexpected<Failure>(made.error());
  job.has_mode = has_permissions(made->attributes, job.kept.mode);
  job.there = made->handle;
  co_return Result<void>();
}

Task<Result<void>> IntoServer::fill(FileJob& job) {
  auto done = co_await write_and_commit(job);
  if (done && options().verify) done = co_await transfer(job, Step::kCompare);
  if (!done || (job.has_mode && !options().keep)) co_return done;
  co_return co_await set(job.there, job.kept, job.route);
}

Task<Result<void>> IntoServer::put_in_place(const Folder& into, const std::string& temporary,
                                            const std::string& name, Result<void> done) {
  if (done) {
    const auto move = [&] { return server().rename(into.there, temporary, into.there, name); };
    done = co_await patiently(move);
  }
  if (done) co_return done;
  // Where calls fail, removing would wait for as long once more, unless it was the other server's.
  const bool may_answer =
      !done.error().error || (has_source() && server().connections().is_any_up());
  if (may_answer) {
    co_await take_away(into, temporary);
  } else {
    ++result().parts_left;
  }
  co_return done;
}

// A rename would replace what has appeared since it was looked for; a link does not.
Task<Result<bool>> IntoServer::name_what_is_new(FileJob& job, const std::string& temporary) {
  const auto link = [&] { return server().link(job.there, job.into->there, job.name); };
  auto linked = co_await patiently(link);
  job.has_stayed = !linked && is_answer(linked.error(), nfsstat3::NFS3ERR_EXIST);
  if (!linked && !job.has_stayed) {
    if (cannot_link(linked.error())) co_return false;
    co_return Unexpected<Failure>(linked.error());
  }
  co_await take_away(*job.into, temporary);
  co_return true;
}

Task<void> IntoServer::take_away(const Folder& into, const std::string& temporary) {
  const auto remove = [&] { return server().remove(into.there, temporary, false); };
  const auto removed = co_await patiently(remove);
  if (!removed) ++result().parts_left;
}

Task<Result<void>> IntoServer::set(const nfs3::nfs_fh3& there, const Kept& kept, Route route) {
  const nfs3::sattr3 attributes = kept.to_server();
  const auto make = [&] { return server().set(there, attributes, route); };
  co_return co_await patiently(make);
}

Task<void> IntoServer::put_link(const std::string& target, const Folder& into,
                                const std::string& name, const std::string& path) {
  auto made = co_await make_link(into, name, target);
  const bool has_stayed =
      options().no_clobber && !made && is_answer(made.error(), nfsstat3::NFS3ERR_EXIST);
  if (made || has_stayed) {
    end_link(path, into, name, has_stayed);
  } else {
    fail(path, made.error());
  }
}

Task<Result<void>> IntoServer::make_link(const Folder& into, const std::string& name,
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
