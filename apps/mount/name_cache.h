// The names that a client has seen in its directories, also that there is none of a name. A name
// holds as long as nobody else has changed its directory. The number of all names is bounded: the
// one that nobody has asked for the longest goes first.
#ifndef RPCRDMA_MOUNT_NAME_CACHE_H_
#define RPCRDMA_MOUNT_NAME_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mounts {

// Zero names no node; the kernel uses it for a name that does not exist.
enum class NodeId : std::uint64_t {};
inline constexpr NodeId kNoNode{0};
inline constexpr NodeId kRootNode{1};

class NameCache {
 public:
  explicit NameCache(std::size_t names_max) : names_max_(names_max) {}
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;

  // Returns the node of a name, or kNoNode; nullopt: unknown. `version` is the directory's.
  std::optional<NodeId> find(NodeId directory, std::string_view name, std::uint64_t version) {
    const auto found = by_name_.find({directory, name});
    if (found == by_name_.end()) return std::nullopt;
    if (found->second->version != version) {
      erase(found);
      return std::nullopt;
    }
    items_.splice(items_.end(), items_, found->second);
    return found->second->node;
  }
  // Notes a name of a directory as it was seen.
  void note(NodeId directory, std::string_view name, NodeId node, std::uint64_t version) {
    drop(directory, name);
    if (items_.size() >= names_max_) drop(items_.front().directory, items_.front().name);
    items_.push_back({directory, std::string(name), node, version});
    // The key refers to the name in the list, which stays where it is.
    by_name_.emplace(Key{directory, items_.back().name}, std::prev(items_.end()));
  }
  void drop(NodeId directory, std::string_view name) {
    const auto found = by_name_.find({directory, name});
    if (found != by_name_.end()) erase(found);
  }
  std::size_t size() const noexcept { return items_.size(); }

 private:
  struct Item {
    NodeId directory;
    std::string name;
    NodeId node;
    std::uint64_t version;
  };
  using Key = std::pair<NodeId, std::string_view>;
  // Ordered, so that no choice of names makes it slow.
  using Names = std::map<Key, std::list<Item>::iterator>;

  void erase(Names::iterator at) {
    const auto item = at->second;
    by_name_.erase(at);
    items_.erase(item);
  }

  const std::size_t names_max_;
  std::list<Item> items_;  // by their last use
  Names by_name_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NAME_CACHE_H_
