#include "mount/directory_operations.h"

#include <cerrno>
#include <optional>
#include <utility>

namespace mounts {
namespace {

constexpr std::uint32_t kPageSize = 60U << 10U;   // bytes of a reply, which servers may make less
constexpr std::uint32_t kNamesSize = 16U << 10U;  // bytes of names in a reply with attributes

}  // namespace

DirectoryOperations::DirectoryId DirectoryOperations::open(Hold node) {
  const DirectoryId id{++last_};
  ++node->opened;
  directories_[id].node = std::move(node);
  return id;
}

void DirectoryOperations::release(DirectoryId id) {
  const auto found = directories_.find(id);
  if (found == directories_.end()) return;
  --found->second.node->opened;
  if (found->second.has_use) uses_.erase(found->second.use);
  directories_.erase(found);
}

std::size_t DirectoryOperations::names_in_memory() const noexcept {
  std::size_t sum = 0;
  for (const auto& [id, each] : directories_) sum += each.reader.names_in_memory();
  return sum;
}

// Programs may open as many directories as they may have descriptors.
void DirectoryOperations::take_memory_of_others(DirectoryId id, OpenDirectory& directory) {
  if (directory.has_use) uses_.erase(directory.use);
  directory.use = uses_.insert(uses_.end(), id);
  directory.has_use = true;
  for (auto each = uses_.begin(); each != uses_.end() && uses_.size() > kWithMemoryMax;) {
    OpenDirectory& other = directories_.at(*each);
    if (other.is_busy || *each == id) {
      ++each;
      continue;
    }
    other.reader.give_memory_back();
    other.has_use = false;
    each = uses_.erase(each);
  }
}

int DirectoryOperations::take_refusal(OpenDirectory& directory, nfs3::nfsstat3 status) {
  if (status == nfs3::nfsstat3::NFS3ERR_BAD_COOKIE) return directory.reader.restart();
  return tree_.refusal(*directory.node, status);
}

int DirectoryOperations::take(OpenDirectory& directory, nfs3::READDIRPLUS3res& reply,
                              AttributeCache::Point begun) {
  auto* const found = reply.resok();
  if (found == nullptr) return take_refusal(directory, reply.status());
  (void)tree_.note(*directory.node, found->dir_attributes, begun);
  directory.page_begun = begun;
  directory.page_version =
      directory.node->attributes.version_shown(begun, found->dir_attributes.attributes());
  DirectoryReader::Page page{{}, found->cookieverf, found->reply.eof};
  for (nfs3::entryplus3& each : found->reply.entries) {
    DirectoryReader::Entry& entry = page.entries.emplace_back();
    entry.name = std::move(each.name);
    entry.fileid = each.fileid;
    entry.cookie = each.cookie;
    const auto* const handle = each.name_handle.handle();
    const auto* const attributes = each.name_attributes.attributes();
    if (handle != nullptr && !handle->data.empty() && attributes != nullptr) {
      entry.handle = *handle;
      entry.attributes = *attributes;
    }
  }
  return directory.reader.take(std::move(page));
}

int DirectoryOperations::take(OpenDirectory& directory, nfs3::READDIR3res& reply,
                              AttributeCache::Point begun) {
  auto* const found = reply.resok();
  if (found == nullptr) return take_refusal(directory, reply.status());
  (void)tree_.note(*directory.node, found->dir_attributes, begun);
  directory.page_begun = begun;
  directory.page_version =
      directory.node->attributes.version_shown(begun, found->dir_attributes.attributes());
  DirectoryReader::Page page{{}, found->cookieverf, found->reply.eof};
  for (nfs3::entry3& each : found->reply.entries) {
    page.entries.push_back({std::move(each.name), each.fileid, each.cookie});
  }
  return directory.reader.take(std::move(page));
}

Task<int> DirectoryOperations::ask(DirectoryId id, DirectoryReader::Ask wanted, bool with_nodes,
                                   Who who) {
  const Hold node = tree_.nodes().find(directories_.at(id).node->id);
  const auto begun = AttributeCache::now_in_order(Tree::now());
  int error = 0;
  if (with_nodes) {
    const nfs3::READDIRPLUS3args args{node->handle, wanted.cookie, wanted.verifier, kNamesSize,
                                      kPageSize};
    auto reply = co_await tree_.calls().read_directory_plus(args, who.as());
    const auto directory = directories_.find(id);
    if (directory == directories_.end()) co_return EBADF;
    error = reply ? take(directory->second, *reply, begun) : error_of(reply.error());
    // A server may have READDIR alone.
    const bool has_plus = !reply || reply->status() != nfs3::nfsstat3::NFS3ERR_NOTSUPP;
    if (has_plus) co_return error;
  }
  const nfs3::READDIR3args args{node->handle, wanted.cookie, wanted.verifier, kPageSize};
  auto reply = co_await tree_.calls().read_directory(args, who.as());
  const auto directory = directories_.find(id);
  if (directory == directories_.end()) co_return EBADF;
  error = reply ? take(directory->second, *reply, begun) : error_of(reply.error());
  co_return error;
}

Entry DirectoryOperations::entry_of(OpenDirectory& directory, const DirectoryReader::Entry& entry) {
  if (!entry.handle || entry.name == "." || entry.name == "..") return {};
  Node& parent = *directory.node;
  // Without its node the kernel has the name alone, and looks it up if it needs more.
  if (tree_.nodes().is_nearly_full()) return {};
  // A change of ours may have taken the name away since the page was sent.
  if (parent.attributes.is_overtaken(directory.page_begun)) return {};
  Hold node = tree_.nodes().find_or_add(*entry.handle, *entry.attributes);
  if (node->id == parent.id || node->id == kRootNode) return {};
  // A page may lie here for as long as the kernel wants: our changes since then are newer.
  const bool is_newest = node->attributes.take(*entry.attributes, directory.page_begun);
  const nfs3::fattr3* const fresh = node->attributes.fresh(Tree::now());
  // The kernel takes the size that it is shown, and appends behind it: it rather asks again.
  if (!is_newest && fresh == nullptr) return {};
  const nfs3::fattr3 shown = is_newest ? *entry.attributes : *fresh;
  // Somebody else may have changed the directory since then: the name is none to remember.
  const bool is_current = directory.page_version == parent.attributes.version();
  return tree_.entry_of(std::move(node), parent, entry.name, shown, is_current);
}

Task<Outcome<void>> DirectoryOperations::read(DirectoryId id, std::uint64_t offset, bool with_nodes,
                                              NameSink& sink, Who who) {
  auto at = directories_.find(id);
  if (at == directories_.end()) co_return failed(EBADF);
  // The kernel reads a directory by one program at a time.
  if (std::exchange(at->second.is_busy, true)) co_return failed(EBUSY);
  int error = 0;
  take_memory_of_others(id, at->second);
  at->second.reader.seek(offset);
  for (bool is_any = false;;) {
    OpenDirectory& directory = at->second;
    const auto* const next = directory.reader.next();
    if (next != nullptr) {
      if (!sink.has_room_for(*next)) break;
      Entry node = with_nodes ? entry_of(directory, *next) : Entry();
      if (!sink.add(*next, std::move(node))) break;
      is_any = true;
      directory.reader.give();
      continue;
    }
    const auto wanted = directory.reader.wanted();
    if (!wanted || is_any) break;
    error = co_await ask(id, *wanted, with_nodes, who);
    at = directories_.find(id);
    if (at == directories_.end()) co_return failed(EBADF);
    if (error != 0) break;
  }
  at->second.is_busy = false;
  if (error != 0) co_return failed(error);
  co_return Outcome<void>();
}

}  // namespace mounts
