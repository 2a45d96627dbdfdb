#include "nfs/client/relayer.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace nfs {

using rpcrdma::MutableBytes;
using rpcrdma::Task;
using rpcrdma::Unexpected;

Task<void> Relayer::all(const std::vector<std::string>& sources, const std::string& target) {
  std::string name;
  Folder* const top = co_await open_target(target, sources.size() == 1, name);
  if (top == nullptr) co_return;
  Folder& into = *top;
  for (const std::string& each : sources) {
    if (has_stopped()) break;
    const auto find = [&] { return from_.look_up_path(each, !options().recursive); };
    auto found = co_await patiently(find);
    if (!found) {
      fail(each, found.error());
      continue;
    }
    // The export itself has the name of its last directory.
    std::string as = !name.empty() ? name : name_of(each.empty() ? from_.url().path : each);
    std::string path = each;
    Node node = std::move(*found);
    co_await any(std::move(node), into, std::move(as), std::move(path));
  }
  leave(into);
}

Task<void> Relayer::any(Node node, Folder& into, std::string name, std::string path) {
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
  job->source = std::move(node.handle);
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

Task<void> Relayer::folder(const Node& node, Folder& into, const std::string& name,
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
  const auto list = [&] { return from_.list(node.handle); };
  auto listed = co_await patiently(list);
  const Kept kept = Kept::of(node.attributes);
  auto made = co_await make_folder(kept, into, name, path);
  if (made == nullptr) co_return;
  if (co_await is_copied_into(node, made.get())) {
    fail(path, Failure::here("it is the directory that it would be copied to"));
    co_return;
  }
  made->parent = &into;
  enter(into);
  Folder& folder = *made.release();
  if (!listed) fail(folder.path, listed.error());
  for (std::size_t i = 0; listed && i < listed->size() && !has_stopped(); ++i) {
    co_await entry(node.handle, (*listed)[i], folder);
  }
  leave(folder);
}

Task<void> Relayer::entry(const nfs3::nfs_fh3& directory, Listed& listed, Folder& folder) {
  std::string path = folder.path + listed.name;
  if (!is_safe_name(listed.name)) {
    fail(path, Failure::here("the server sent a name that no file can have"));
    co_return;
  }
  if (!listed.node) {
    const auto make = [&] { return from_.look_up(directory, listed.name); };
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

Task<void> Relayer::link(const Node& node, Folder& into, const std::string& name,
                         const std::string& path) {
  const auto make = [&] { return from_.read_link(node.handle); };
  auto target = co_await patiently(make);
  if (!target) {
    fail(path, target.error());
    co_return;
  }
  co_await put_link(*target, into, name, path);
}

Task<bool> Relayer::is_copied_into(const Node& node, const Folder* into) {
  bool is_found = false;
  for (const Folder* each = into; each != nullptr && !is_found; each = each->parent) {
    if (each->target_id != node.attributes.fileid) continue;
    is_found = co_await is_same_there(node.handle, each->there);
  }
  co_return is_found;
}

// They have the same number, which may be another file system's. So has the time of the last change
// to lie between what the one server says before and after the other one is asked.
Task<bool> Relayer::is_same_there(const nfs3::nfs_fh3& source, const nfs3::nfs_fh3& there) {
  const auto number = [](const nfs3::nfstime3& time) {
    return std::uint64_t{time.seconds} * 1'000'000'000 + time.nseconds;
  };
  const auto ask_target = [&] { return server().attributes(there); };
  const auto ask_source = [&] { return from_.attributes(source); };
  const auto before = co_await patiently(ask_target);
  const auto now = co_await patiently(ask_source);
  const auto after = co_await patiently(ask_target);
  co_return before&& now&& after&& number(before->ctime) <= number(now->ctime) &&
      number(now->ctime) <= number(after->ctime);
}

Task<bool> Relayer::is_source(const FileJob& job, const nfs3::nfs_fh3& there) {
  co_return co_await is_same_there(job.source, there);
}

Task<Result<void>> Relayer::fetch(FileJob& job, std::uint64_t offset, MutableBytes into) {
  for (std::size_t done = 0; done < into.size();) {
    const MutableBytes rest =
        into.subspan(done, std::min<std::size_t>(into.size() - done, from_.read_size()));
    const std::uint64_t at = offset + done;
    const auto make = [&] { return from_.read(job.source, at, rest, job.route); };
    auto got = co_await patiently(make);
    if (!got) co_return Unexpected<Failure>(got.error());
    if (got->count == 0) {
      co_return Unexpected<Failure>(Failure::here("it became shorter while it was copied"));
    }
    done += got->count;
  }
  co_return Result<void>();
}

}  // namespace nfs
