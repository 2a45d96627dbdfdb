// The files and directories that the kernel knows, or that a request is about.
//
// The kernel names a node by a number, which has a place in the table and the generation of that
// place, so that a number of long ago names nothing. A node lives as long as the kernel has it
// (FORGET takes back what lookups gave) and as long as somebody here holds it.
//
// The kernel keeps nodes for as long as it has memory. So the table has a bound, and says in time
// which names the kernel should forget: those of the nodes that nobody has used the longest.
#ifndef RPCRDMA_MOUNT_NODE_TABLE_H_
#define RPCRDMA_MOUNT_NODE_TABLE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mount/access_answers.h"
#include "mount/attribute_cache.h"
#include "mount/name_cache.h"
#include "mount/new_directory.h"
#include "mount/signal.h"
#include "mount/write_behind.h"
#include "nfs3.h"

namespace mounts {

// A name by which the kernel knows a node.
struct NameOfNode {
  NodeId node, directory;
  std::string name;
  bool is_of_directory = false;  // the node's type
};

// A name of ours (names_of_ours.h), and in whose name it is removed.
struct NameOfOurs {
  std::string name;
  bool is_certain = false;  // else the server has not said that the file has it
  NodeId directory{};
  nfs3::nfs_fh3 directory_handle;  // the table may have forgotten the directory by then
  std::uint32_t uid = 0;
  std::optional<rpcrdma::AuthSys> credential;  // nullopt: the connections' own
};

struct Node {
  explicit Node(const TimeOuts& time_outs) : attributes(time_outs) {}

  // Returns whether attributes of a reply can be this node's, and not another file's.
  bool can_have(const nfs3::fattr3& found) const noexcept {
    return found.type == type && found.fileid == fileid;
  }

  NodeId id{};
  nfs3::nfs_fh3 handle;
  nfs3::ftype3 type = nfs3::ftype3::NF3REG;
  std::uint64_t fsid = 0, fileid = 0;
  AttributeCache attributes;
  AccessAnswers access;
  std::unique_ptr<WriteBehind> writes;      // of a file that was written
  Time last_written{};                      // when the server took bytes of it the last time
  Signal news;                              // of its writes and of blocks that were read
  std::uint64_t own_writes = 0;             // grows with each write and each size that is set here
  std::uint64_t kernel_version = 0;         // of the content that the kernel may have kept
  std::uint64_t shown_version = 0;          // of the attributes that the kernel was shown
  std::unique_ptr<NewDirectory> made_here;  // of a directory; null: it may have other names
  std::vector<int> appending;               // the latest threads that open it once more to append
  std::uint32_t opened = 0;                 // by programs; each has a hold
  std::uint32_t cuts_under_way = 0;         // by O_TRUNC, for which writes wait
  std::vector<NameOfNode> names;            // the latest few by which the kernel got it
  std::vector<NameOfOurs> ours;             // which the file has until its last close
  std::uint32_t names_under_way = 0;        // changes of its names, which that close waits for
  // Count the names of ours in a directory, and those of them that go.
  std::uint32_t names_of_ours = 0, names_that_go = 0;
};

class NodeTable {
 public:
  static constexpr std::size_t kNodesMax = 100'000;

  explicit NodeTable(const TimeOuts& time_outs, std::size_t nodes_max = kNodesMax)
      : time_outs_(time_outs), nodes_max_(nodes_max) {}
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  // Keeps a node for as long as it exists; empty: there is none.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), node_(other.node_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(node_, other.node_);
      return *this;
    }
    ~Hold() {
      if (table_ != nullptr) table_->let_go(*node_);
    }
    explicit operator bool() const noexcept { return table_ != nullptr; }
    Node* operator->() const noexcept { return node_; }
    Node& operator*() const noexcept { return *node_; }

   private:
    friend class NodeTable;
    Hold(NodeTable& table, Node& node) : table_(&table), node_(&node) {}
    NodeTable* table_ = nullptr;
    Node* node_ = nullptr;
  };

  // The first node of a table is the root, which is never forgotten.
  Hold add_root(const nfs3::nfs_fh3& handle, const nfs3::fattr3& attributes);
  // Returns the node of this handle, or a new one. A handle that now is of another file, by its
  // type or its fileid, gets a new node; the old one keeps its number.
  Hold find_or_add(const nfs3::nfs_fh3& handle, const nfs3::fattr3& attributes);
  // Returns whether find_or_add() would find it.
  bool has(const nfs3::nfs_fh3& handle, const nfs3::fattr3& attributes) const;
  Hold find(NodeId id);
  // A handle that the server no longer knows: the next one like it is of a new node.
  void disown(Node& node);

  // The kernel got the node by one more reply, or gives back so many.
  void add_lookup(Node& node);
  void forget(NodeId id, std::uint64_t count);

  // The kernel got the node by this name, or has the name no more.
  void note_name(Node& node, NodeId directory, std::string_view name);
  static void drop_name(Node& node, NodeId directory, std::string_view name);

  // Nearly full: a node that nobody needs is better not made. Full: only what is known already is
  // found, so that the bound holds whatever the kernel does.
  bool is_nearly_full() const noexcept { return size_ >= nodes_max_ - nodes_max_ / 4; }
  bool is_full() const noexcept { return size_ >= nodes_max_; }
  // Returns names for the kernel to forget, at most so many: none until half of the table is taken.
  // Directories come last, and nothing comes that is in use here. Nodes that the kernel keeps
  // all the same come again behind all others. Names of a directory in which
  // something is under way wait, as long as that does no harm: the kernel may have locked it.
  std::vector<NameOfNode> take_forgettable(std::size_t most);

  std::size_t size() const noexcept { return size_; }
  std::size_t most() const noexcept { return most_; }  // there ever were at a time

 private:
  struct Key {
    std::uint64_t fsid;
    std::vector<std::byte> handle;
    auto operator<=>(const Key&) const = default;
  };
  struct Place {
    std::uint32_t generation = 0;
    std::uint64_t lookups = 0;
    std::uint32_t holds = 0;
    std::optional<Node> node;
    std::list<std::uint32_t>::iterator use{};  // in files_ or directories_
  };
  static constexpr std::size_t kNamesMax = 4;  // of a node

  Place* place_of(NodeId id);
  Hold hold(Place& place);
  Hold add(Key key, const nfs3::fattr3& attributes);
  void let_go(Node& node);
  void free_if_unused(Place& place);
  std::list<std::uint32_t>& uses_of(const Node& node) noexcept {
    return node.type == nfs3::ftype3::NF3DIR ? directories_ : files_;
  }
  void take_from(std::list<std::uint32_t>& uses, std::size_t most, std::vector<NameOfNode>& into);
  bool is_forgettable(const Place& place);
  static Key key_of(const Node& node) { return {node.fsid, node.handle.data}; }

  const TimeOuts& time_outs_;
  std::deque<Place> places_;
  std::vector<std::uint32_t> free_;
  // Ordered, so that no choice of handles makes it slow.
  std::map<Key, NodeId> by_handle_;
  const std::size_t nodes_max_;
  std::size_t size_ = 0, most_ = 0;
  std::list<std::uint32_t> files_, directories_;  // indices, by their last use
  std::vector<NameOfNode> displaced_;             // names beyond those that a node keeps
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NODE_TABLE_H_
