// Operations on open directories.
#ifndef RPCRDMA_MOUNT_DIRECTORY_OPERATIONS_H_
#define RPCRDMA_MOUNT_DIRECTORY_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "mount/directory_reader.h"
#include "mount/tree.h"

namespace mounts {

// Takes the names of a directory until it is full.
class NameSink {
 public:
  virtual ~NameSink() = default;
  // Returns whether there was room. `node` is empty for a name of which nothing else is known.
  virtual bool add(const DirectoryReader::Entry& entry, Entry node) = 0;
  virtual bool has_room_for(const DirectoryReader::Entry& entry) const = 0;
};

class DirectoryOperations {
 public:
  enum class DirectoryId : std::uint64_t {};
  // So many of those that are open keep a page and the names that were given; others ask again.
  static constexpr std::size_t kWithMemoryMax = 32;

  explicit DirectoryOperations(Tree& tree) : tree_(tree) {}

  DirectoryId open(Hold node);
  // Reads names behind the kernel's offset; `with_nodes`: with all that is known of their files.
  Task<Outcome<void>> read(DirectoryId id, std::uint64_t offset, bool with_nodes, NameSink& sink,
                           Who who);
  void release(DirectoryId id);
  std::size_t open_count() const noexcept { return directories_.size(); }
  std::size_t names_in_memory() const noexcept;

 private:
  struct OpenDirectory {
    Hold node;
    std::list<DirectoryId>::iterator use{};  // in uses_
    bool has_use = false;
    DirectoryReader reader;
    AttributeCache::Point page_begun{};  // where the call of the page at hand began
    std::uint64_t page_version = 0;      // of the directory, as the page has it
    bool is_busy = false;
  };

  // Asks for the next page. Returns errno's value, or 0.
  Task<int> ask(DirectoryId id, DirectoryReader::Ask wanted, bool with_nodes, Who who);
  int take(OpenDirectory& directory, nfs3::READDIRPLUS3res& reply, AttributeCache::Point begun);
  int take(OpenDirectory& directory, nfs3::READDIR3res& reply, AttributeCache::Point begun);
  int take_refusal(OpenDirectory& directory, nfs3::nfsstat3 status);
  Entry entry_of(OpenDirectory& directory, const DirectoryReader::Entry& entry);
  void take_memory_of_others(DirectoryId id, OpenDirectory& directory);

  Tree& tree_;
  std::list<DirectoryId> uses_;  // those with memory, by their last use
  std::map<DirectoryId, OpenDirectory> directories_;
  std::uint64_t last_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_DIRECTORY_OPERATIONS_H_
