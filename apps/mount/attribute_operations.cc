#include "mount/attribute_operations.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "mount/change.h"

namespace mounts {
namespace {

std::uint32_t wanted_bits(const Node& node, int mask) {
  const bool is_directory = node.type == nfs3::ftype3::NF3DIR;
  std::uint32_t bits = 0;
  if ((mask & R_OK) != 0) bits |= nfs3::ACCESS3_READ;
  if ((mask & W_OK) != 0) bits |= nfs3::ACCESS3_MODIFY;
  if ((mask & X_OK) != 0) bits |= is_directory ? nfs3::ACCESS3_LOOKUP : nfs3::ACCESS3_EXECUTE;
  return bits;
}

// Returns whether the change takes set-user-ID and set-group-ID bits away, and nothing else. So the
// kernel does in the name of a program that writes, who need not own the file.
bool drops_privileges_alone(const nfs3::fattr3& now, const nfs3::sattr3& changes) {
  constexpr std::uint32_t kPrivileges = S_ISUID | S_ISGID;
  const std::uint32_t* const mode = changes.mode.mode();
  const bool has_others = changes.uid.uid() != nullptr || changes.gid.gid() != nullptr ||
                          changes.size.size() != nullptr ||
                          changes.atime.set_it() != nfs3::time_how::DONT_CHANGE ||
                          changes.mtime.set_it() != nfs3::time_how::DONT_CHANGE;
  return mode != nullptr && !has_others && *mode == (now.mode & 07777U & ~kPrivileges) &&
         (now.mode & kPrivileges) != 0;
}

}  // namespace

AttributeOperations::Shown AttributeOperations::shown(const Node& node,
                                                      const nfs3::fattr3& attributes) {
  return {attributes, node.attributes.left(Tree::now()), node.attributes.version()};
}

Task<Outcome<AttributeOperations::Shown>> AttributeOperations::get(Hold node, Who who) {
  // The server says size and times of bytes once it has them.
  co_await Tree::wait_until_written(tree_.nodes().find(node->id));
  if (const nfs3::fattr3* const fresh = node->attributes.fresh(Tree::now())) {
    ++tree_.statistics().attributes_cached;
    co_return shown(*node, *fresh);
  }
  co_return co_await ask(std::move(node), who);
}

Task<Outcome<AttributeOperations::Shown>> AttributeOperations::ask(Hold node, Who who) {
  auto asked = co_await tree_.ask_attributes(*node, who);
  if (!asked) co_return failed(asked.error());
  co_return Shown{asked->attributes, node->attributes.left(Tree::now()), asked->version};
}

Task<Outcome<AttributeOperations::Shown>> AttributeOperations::set(Hold node,
                                                                   nfs3::sattr3 attributes,
                                                                   Who who) {
  if (attributes.size.size() != nullptr) {
    auto cut = co_await writes_.set_size(tree_.nodes().find(node->id), std::move(attributes), who);
    if (!cut) co_return failed(cut.error());
    if (const nfs3::fattr3* const fresh = node->attributes.fresh(Tree::now())) {
      co_return shown(*node, *fresh);
    }
    co_return co_await ask(std::move(node), who);
  }
  // Bytes that come later would set the times anew: also those that go again because a server was
  // restarted before it had kept them.
  if (attributes.mtime.mtime() != nullptr) {
    co_await writes_.wait_until_clean(tree_.nodes().find(node->id));
  } else {
    co_await Tree::wait_until_written(tree_.nodes().find(node->id));
  }
  const nfs3::fattr3* const last = node->attributes.last();
  const bool is_of_writer =
      node->opened > 0 && last != nullptr && drops_privileges_alone(*last, attributes);
  const nfs3::SETATTR3args args{node->handle, std::move(attributes), {}};
  Change change(*node);
  auto reply = co_await tree_.calls().set_attributes(args, who.as());
  change.end(reply ? object_change(*reply) : nullptr);
  node->access.clear();
  node->made_here.reset();  // others may have got, or its maker have lost, the right to look
  if (!reply) co_return failed(error_of(reply.error()));
  // The server takes them away itself when it gets the bytes, as from any client.
  const bool goes_on = is_of_writer && reply->status() == nfs3::nfsstat3::NFS3ERR_PERM;
  if (reply->resok() == nullptr && !goes_on) {
    co_return failed(tree_.refusal(*node, reply->status()));
  }
  if (change.after != nullptr) {
    co_return Shown{*change.after, node->attributes.left(Tree::now()), change.version};
  }
  co_return co_await ask(std::move(node), who);
}

Task<Outcome<void>> AttributeOperations::check_access(Hold node, int mask, Who who) {
  const std::uint32_t wanted = wanted_bits(*node, mask);
  if (wanted == 0) co_return Outcome<void>();
  const auto known = node->access.find(who.uid, who.credential, wanted, Tree::now());
  if (known && node->attributes.fresh(Tree::now()) != nullptr) {
    if (*known == wanted) co_return Outcome<void>();
    co_return failed(EACCES);
  }
  const auto begun = AttributeCache::now_in_order(Tree::now());
  const std::uint32_t asked = wanted | nfs3::ACCESS3_READ | nfs3::ACCESS3_MODIFY |
                              nfs3::ACCESS3_LOOKUP | nfs3::ACCESS3_EXECUTE | nfs3::ACCESS3_EXTEND |
                              nfs3::ACCESS3_DELETE;
  const nfs3::ACCESS3args args{node->handle, asked};
  auto reply = co_await tree_.calls().access(args, who.as());
  if (!reply) co_return failed(error_of(reply.error()));
  const auto* const answer = reply->resok();
  if (answer == nullptr) co_return failed(tree_.refusal(*node, reply->status()));
  if (!tree_.note(*node, answer->obj_attributes, begun)) co_return failed(ESTALE);
  // A change of ours may have given or taken rights since.
  if (!node->attributes.is_overtaken(begun)) {
    const Time until = Tree::now() + node->attributes.left(Tree::now());
    node->access.note(who.uid, who.credential, asked, answer->access, until);
  }
  if ((answer->access & wanted) != wanted) co_return failed(EACCES);
  co_return Outcome<void>();
}

Task<Outcome<std::string>> AttributeOperations::read_link(Hold node, Who who) {
  const auto begun = AttributeCache::now_in_order(Tree::now());
  const nfs3::READLINK3args args{node->handle};
  auto reply = co_await tree_.calls().read_link(args, who.as());
  if (!reply) co_return failed(error_of(reply.error()));
  if (reply->attributes) (void)tree_.note(*node, *reply->attributes, begun);
  if (reply->status != nfs3::nfsstat3::NFS3_OK) {
    co_return failed(tree_.refusal(*node, reply->status));
  }
  // The kernel would end the text at a NUL, and takes no empty one.
  const bool is_text = !reply->target.empty() && reply->target.find('\0') == std::string::npos;
  if (!is_text) co_return failed(EIO);
  co_return std::move(reply->target);
}

Task<Outcome<nfs3::FSSTAT3resok>> AttributeOperations::space(Who who) {
  const nfs3::FSSTAT3args args{tree_.server().root()};
  auto reply = co_await tree_.calls().space(args, who.as());
  if (!reply) co_return failed(error_of(reply.error()));
  if (reply->resok() == nullptr) co_return failed(error_of(reply->status()));
  co_return std::move(*reply->resok());
}

}  // namespace mounts
