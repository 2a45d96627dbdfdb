// Names of ours (.nfs and digits), by which files keep their bytes.
//
// A server does not know which files are open. A file that a program has open gets a name of ours
// before its own goes, and loses it behind the last close. That name is removed with the credential
// of the user who removed the file: the user who closes it last may not have the right to.
#ifndef RPCRDMA_MOUNT_NAMES_OF_OURS_H_
#define RPCRDMA_MOUNT_NAMES_OF_OURS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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
  Task<Outcome<Way>> keep(Hold parent, Hold file, std::string name, Who who);
  // Ends it where the other file has not come. `is_refused`: it certainly has not; a file that was
  // renamed gets its name back then. Else its name may be the other file's, and ours stays for good
  // where it is the only one, since nobody has removed the file.
  Task<void> give_up(Hold parent, Hold file, std::string name, Way way, bool is_refused);

  // Removes the name of a file that nobody has open any more.
  Task<void> remove(Hold file);
  // Waits until a directory has no files with such names: as long as they go, and for a moment
  // since the kernel may be about to say that the last one was closed. Returns whether it has none.
  Task<bool> wait_until_gone(Hold directory, Time deadline);
  // Counts the names that have gone. Whoever was refused for one sees that it may ask again.
  std::uint64_t gone() const noexcept { return gone_; }

 private:
  std::string name_for(const Node& file, const Node& parent);
  // The file has this name from now on, perhaps.
  static void note(Node& file, Node& parent, const std::string& ours, Who who, bool is_certain);
  static NameOfOurs take(Node& file) { return std::exchange(file.ours, {}); }
  void note_gone(NodeId directory);
  Task<Outcome<void>> rename(Hold parent, std::string name, std::string new_name, Who who,
                             bool& is_answered);
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

// As long as it lives, the name of ours of a file that nobody has open goes, if it has one: who
// removes its directory waits for that.
class GoingName {
 public:
  GoingName(Tree& tree, const Node& file) : directory_(tree.nodes().find(file.ours.directory)) {
    if (directory_) ++directory_->names_that_go;
  }
  ~GoingName() {
    if (directory_) --directory_->names_that_go;
  }
  GoingName(const GoingName&) = delete;
  GoingName& operator=(const GoingName&) = delete;

 private:
  const Hold directory_;  // empty: it has none, or the table has forgotten the directory
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NAMES_OF_OURS_H_
