// Operations on the attributes of files.
#ifndef RPCRDMA_MOUNT_ATTRIBUTE_OPERATIONS_H_
#define RPCRDMA_MOUNT_ATTRIBUTE_OPERATIONS_H_

#include <cstdint>
#include <string>

#include "mount/file_writes.h"
#include "mount/tree.h"

namespace mounts {

class AttributeOperations {
 public:
  AttributeOperations(Tree& tree, FileWrites& writes) : tree_(tree), writes_(writes) {}

  struct Shown {
    nfs3::fattr3 attributes;
    Clock::duration left;   // for how long the kernel may show them without asking
    std::uint64_t version;  // of these attributes
  };
  // Shows what programs have written here, too.
  Task<Outcome<Shown>> get(Hold node, Who who);
  // A new size waits until the server has all bytes for good: none of them comes back later.
  Task<Outcome<Shown>> set(Hold node, nfs3::sattr3 attributes, Who who);
  // `mask` as of access(2).
  Task<Outcome<void>> check_access(Hold node, int mask, Who who);
  Task<Outcome<std::string>> read_link(Hold node, Who who);
  Task<Outcome<nfs3::FSSTAT3resok>> space(Who who);

 private:
  Task<Outcome<Shown>> ask(Hold node, Who who);
  static Shown shown(const Node& node, const nfs3::fattr3& attributes);

  Tree& tree_;
  FileWrites& writes_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_ATTRIBUTE_OPERATIONS_H_
