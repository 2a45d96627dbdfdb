// Operations on the names of directories.
//
// A file that programs have open keeps its bytes when its name is removed, or is taken by a rename
// (names_of_ours.h).
#ifndef RPCRDMA_MOUNT_NAME_OPERATIONS_H_
#define RPCRDMA_MOUNT_NAME_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "mount/names_of_ours.h"
#include "mount/tree.h"

namespace mounts {

class NameOperations {
 public:
  explicit NameOperations(Tree& tree) : tree_(tree), ours_(tree) {}

  // An entry without a node is an answer, too: there is no such name.
  Task<Outcome<Entry>> look_up(Hold parent, std::string name, Who who);
  Task<Outcome<Entry>> make_directory(Hold parent, std::string name, std::uint32_t mode, Who who);
  Task<Outcome<Entry>> make_symbolic_link(Hold parent, std::string name, std::string target,
                                          Who who);
  // `mode` has the type; FIFOs, sockets, devices and files.
  Task<Outcome<Entry>> make_node(Hold parent, std::string name, std::uint32_t mode,
                                 nfs3::specdata3 device, Who who);
  // Makes a file. If there is one, `is_exclusive` fails with EEXIST; else that one is the result,
  // and `was_made` is false.
  struct Created {
    Entry entry;
    bool was_made = false;
  };
  Task<Outcome<Created>> create(Hold parent, std::string name, std::uint32_t mode,
                                bool is_exclusive, Who who);
  Task<Outcome<Entry>> link(Hold file, Hold parent, std::string name, Who who);
  Task<Outcome<void>> remove(Hold parent, std::string name, Who who);
  // Waits for a moment where all that is left in the directory are files with names of ours.
  Task<Outcome<void>> remove_directory(Hold parent, std::string name, Who who);
  Task<Outcome<void>> rename(Hold from, std::string name, Hold to, std::string new_name, Who who);
  NamesOfOurs& ours() noexcept { return ours_; }

 private:
  Task<Outcome<void>> remove_directory_once(Hold parent, std::string name, Who who);

  // From where on the attributes and the name of a file that a reply has are as it says: changes
  // of ours behind these points may be newer.
  struct Seen {
    AttributeCache::Point file, name;
    std::uint64_t version;  // of the directory that has the name
  };

  // kNeeded: a file that the table does not have waits for its place there. Names that go are
  // looked up without that, and files that were just made have waited before.
  enum class Room : std::uint8_t { kNeeded, kExceeded };
  Task<Outcome<Entry>> find(Hold parent, std::string name, Who who, Room room = Room::kExceeded);
  Task<Outcome<Entry>> ask(Hold parent, std::string name, Who who, Room room = Room::kExceeded);
  Task<Outcome<Entry>> made(Hold parent, std::string name, nfs3::post_op_fh3 handle,
                            nfs3::post_op_attr attributes, Seen seen, Who who,
                            Room room = Room::kExceeded);
  Task<Outcome<void>> remove_once(Hold parent, std::string name, Who who);
  Task<Outcome<bool>> exists_as(Hold parent, std::string name, Who who, std::uint64_t fileid);
  // Returns from where on the new name is the file's. `is_refused`: it certainly has not happened.
  Task<Outcome<AttributeCache::Point>> rename_once(Hold from, std::string name, Hold to,
                                                   std::string new_name, std::uint64_t fileid,
                                                   Who who, bool& is_refused);

  Tree& tree_;
  NamesOfOurs ours_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NAME_OPERATIONS_H_
