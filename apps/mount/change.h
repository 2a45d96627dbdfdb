// A change of a directory or a file that is under way, from its call to the end of its reply.
#ifndef RPCRDMA_MOUNT_CHANGE_H_
#define RPCRDMA_MOUNT_CHANGE_H_

#include <cstdint>
#include <string_view>
#include <utility>

#include "mount/tree.h"

namespace mounts {

struct Change {
  explicit Change(Node& of) : node(of), begun(of.attributes.begin_change(Tree::now())) {}
  // A change that may add a name to the directory.
  Change(Tree& tree, Node& of, std::string_view name) : Change(of) { tree.note_possible(of, name); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() { end(nullptr); }
  // Ends it, once. A server that shows another file instead says nothing of this one.
  void end(const nfs3::wcc_data* change) {
    if (std::exchange(has_ended, true)) return;
    after = change != nullptr ? change->after.attributes() : nullptr;
    if (after != nullptr && !node.can_have(*after)) after = nullptr, change = nullptr;
    const bool was_alone = node.attributes.end_change(change, begun);
    if (was_alone) ended = AttributeCache::now_in_order(Tree::now());
    if (was_alone) version = node.attributes.version();
  }

  Node& node;
  const AttributeCache::Point begun;
  AttributeCache::Point ended{};  // as long ago as can be if there were other changes
  std::uint64_t version = AttributeCache::kNoVersion;  // behind it, unless there were others
  const nfs3::fattr3* after = nullptr;                 // in the reply; null: it has none
  bool has_ended = false;
};

inline const nfs3::wcc_data* object_change(const nfs3::SETATTR3res& reply) {
  if (reply.resok() != nullptr) return &reply.resok()->obj_wcc;
  return reply.resfail() != nullptr ? &reply.resfail()->obj_wcc : nullptr;
}

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_CHANGE_H_
