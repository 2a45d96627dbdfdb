// The names that a client has seen in a directory, also that there is none of a name. They hold as
// long as nobody else has changed the directory.
#ifndef RPCRDMA_MOUNT_NAME_CACHE_H_
#define RPCRDMA_MOUNT_NAME_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mounts {

// Zero names no node; the kernel uses it for a name that does not exist.
enum class NodeId : std::uint64_t {};
inline constexpr NodeId kNoNode{0};
inline constexpr NodeId kRootNode{1};

class NameCache {
 public:
  static constexpr std::size_t kNamesMax = 4096;

  // Returns the node of a name, or kNoNode; nullopt: unknown. `version` is the directory's.
  std::optional<NodeId> find(std::string_view name, std::uint64_t version) const {
    if (version != version_) return std::nullopt;
    const auto found = names_.find(name);
    return found != names_.end() ? std::optional(found->second) : std::nullopt;
  }
  // Notes a name of a directory as it was seen; a full cache begins anew.
  void note(std::string_view name, NodeId node, std::uint64_t version) {
    if (version != version_ || names_.size() >= kNamesMax) names_.clear();
    version_ = version;
    names_.insert_or_assign(std::string(name), node);
  }
  void drop(std::string_view name) {
    const auto found = names_.find(name);
    if (found != names_.end()) names_.erase(found);
  }

 private:
  std::map<std::string, NodeId, std::less<>> names_;
  std::uint64_t version_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_NAME_CACHE_H_
