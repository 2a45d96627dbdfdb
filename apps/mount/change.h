// A change of a directory or a file that is under way, from its call to the end of its reply.
#ifndef RPCRDMA_MOUNT_CHANGE_H_
#define RPCRDMA_MOUNT_CHANGE_H_

#include <cstdint>
#include <string_view>
#include <utility>

#include "mount/tree.h"

namespace mounts {

struct Change {
  explicit Change(Node& of) : node(of), begun(of.attributes.begin_change()) {}
  // A change that may add a name to the directory.
  Change(Tree& tree, Node& of, std::string_view name) : Change(of) { tree.note_possible(of, name); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
  ~Change() { end(nullptr); }
  // Ends it, once.
  void end(const nfs3::wcc_data* change) {
    if (std::exchange(has_ended, true)) return;
    const bool was_alone = node.attributes.end_change(change, begun, Tree::now());
    if (was_alone) ended = AttributeCache::now_in_order();
    version = node.attributes.version();
  }

  Node& node;
  const AttributeCache::Point begun;
  AttributeCache::Point ended{};  // as long ago as can be if there were other changes
  std::uint64_t version = AttributeCache::kNoVersion;  // behind it
  bool has_ended = false;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_CHANGE_H_
