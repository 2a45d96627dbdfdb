// Names of ours (.nfs and digits), by which files keep their bytes.
//
// A server does not know which files are open. A file that a program has open gets a name of ours
// before its own goes, and loses it behind the last close. That name is removed with the credential
// of the user who removed the file: the user who closes it last may not have the right to.
//
// One such name keeps the bytes. A file gets a second one if the server has not said that it has
// the first: both go with the last close then.
#ifndef RPCRDMA_MOUNT_NAMES_OF_OURS_H_
#define RPCRDMA_MOUNT_NAMES_OF_OURS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mount/tree.h"

namespace mounts {

class NamesOfOurs {
 public:
  explicit NamesOfOurs(Tree& tree) : tree_(tree) {}

  // Returns whether a file would lose its bytes with this name while it is open.
  static bool are_needed(const Node& file, const Node& parent, std::string_view name);

  // Waits until no other change of the file's names is under way. One name of ours is enough for
  // all that it loses: two that came at once would be one too many for its last close.
  static Task<void> wait_for_others(Hold file);

  // Renames a file that is to be removed. If the server does not answer it may have done so: the
  // name of ours then goes with the last close as well, and a further attempt takes the same.
  Task<Outcome<void>> put_aside(Hold parent, Hold file, std::string name, Who who);

  // A file in whose place another one is renamed keeps its name until that has happened: it gets
  // ours beside it, by a link. kRename: the server makes no links there, so it was renamed.
  enum class Way : std::uint8_t { kLink, kRename };
  struct Kept {
    Way way;
    std::string ours;
  };
  Task<Outcome<Kept>> keep(Hold parent, Hold file, std::string name, Who who);
  // Ends it where the other file has not come. `is_refused`: it certainly has not; a file that was
  // renamed gets its name back then. Else its name may be the other file's, and ours stays for good
  // where it is the only one, since nobody has removed the file.
  Task<void> give_up(Hold parent, Hold file, std::string name, Kept kept, bool is_refused);
  // Notes that a name is no longer the file's, in case it is one of ours: a program may rename it,
  // or give it to another file.
  void forget(Node& file, NodeId directory, std::string_view name);

  // Removes all such names of a file that nobody has open any more, at the same time.
  Task<void> remove(Hold file);
  // Waits until a directory has no files with such names: as long as they go, and for a moment
  // since the kernel may be about to say that the last one was closed. Returns whether it has none.
  Task<bool> wait_until_gone(Hold directory, Time deadline);
  // Counts the names that have gone. Whoever was refused for one sees that it may ask again.
  std::uint64_t gone() const noexcept { return gone_; }

 private:
  // Returns the name for a file that loses `name`.
  std::string name_for(const Node& file, const Node& parent, std::string_view name);
  // The file has this name from now on, perhaps.
  static void note(Node& file, Node& parent, const std::string& ours, Who who, bool is_certain);
  void note_gone(NodeId directory);
  Task<Outcome<void>> rename(Hold parent, std::string name, std::string new_name, Who who,
                             bool& is_answered);
  Task<void> remove_one(NameOfOurs ours);
  Task<bool> remove_once(const NameOfOurs& ours);

  Tree& tree_;
  std::uint64_t last_ = 0, gone_ = 0;
};

// As long as it lives, a change of the names of a file is under way. A last close in this time
// waits: the file may get a name of ours that is to go, or one that is its only one.
class NamesUnderWay {
 public:
  NamesUnderWay(Tree& tree, Hold file) : tree_(tree), file_(std::move(file)) {
    ++file_->names_under_way;
  }
  ~NamesUnderWay() {
    --file_->names_under_way;
    file_->news.notify(tree_.turns());
  }
  NamesUnderWay(const NamesUnderWay&) = delete;
  NamesUnderWay& operator=(const NamesUnderWay&) = delete;

 private:
  Tree& tree_;
  const Hold file_;
};

// As long as it lives, the names of ours of a file that nobody has open go: who removes their
// directories waits for that.
class GoingName {
 public:
  GoingName(Tree& tree, const Node& file) {
    for (const NameOfOurs& each : file.ours) {
      Hold directory = tree.nodes().find(each.directory);
      if (!directory) continue;  // the table has forgotten it
      ++directory->names_that_go;
      directories_.push_back(std::move(directory));
    }
  }
  ~GoingName() {
    for (const Hold& each : directories_) --each->names_that_go;
  }
  GoingName(const GoingName&) = delete;
  GoingName& operator=(const GoingName&) = delete;

 private:
  std::vector<Hold> directories_;  // one for each name
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NAMES_OF_OURS_H_
