#include "mount/node_table.h"

#include <algorithm>
#include <iterator>

namespace mounts {
namespace {

constexpr unsigned kPlaceBits = 32;

std::uint32_t index_of(NodeId id) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(id));
}

// The kernel's number of the root is 1, and no other node has 0.
NodeId id_of(std::uint32_t generation, std::uint32_t index) {
  return NodeId{(std::uint64_t{generation} << kPlaceBits) | index};
}

}  // namespace

NodeTable::Place* NodeTable::place_of(NodeId id) {
  const std::uint32_t index = index_of(id);
  if (index == 0 || index > places_.size()) return nullptr;
  Place& place = places_[index - 1];
  return place.node && place.node->id == id ? &place : nullptr;
}

NodeTable::Hold NodeTable::hold(Place& place) {
  ++place.holds;
  std::list<std::uint32_t>& uses = uses_of(*place.node);
  uses.splice(uses.end(), uses, place.use);
  return {*this, *place.node};
}

NodeTable::Hold NodeTable::add(Key key, const nfs3::fattr3& attributes) {
  if (free_.empty()) {
    places_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(places_.size()));
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Place& place = places_[index - 1];
  Node& node = place.node.emplace(time_outs_);
  node.id = id_of(place.generation, index);
  node.handle.data = key.handle;
  node.type = attributes.type;
  node.fsid = attributes.fsid;
  node.fileid = attributes.fileid;
  by_handle_[std::move(key)] = node.id;
  std::list<std::uint32_t>& uses = uses_of(node);
  place.use = uses.insert(uses.end(), index);
  most_ = std::max(most_, ++size_);
  return hold(place);
}

NodeTable::Hold NodeTable::add_root(const nfs3::nfs_fh3& handle, const nfs3::fattr3& attributes) {
  Hold made = add({attributes.fsid, handle.data}, attributes);
  add_lookup(*made);
  return made;
}

NodeTable::Hold NodeTable::find_or_add(const nfs3::nfs_fh3& handle,
                                       const nfs3::fattr3& attributes) {
  Key key{attributes.fsid, handle.data};
  const auto known = by_handle_.find(key);
  if (known == by_handle_.end()) return add(std::move(key), attributes);
  Place& place = *place_of(known->second);
  const bool is_same = place.node->can_have(attributes);
  return is_same ? hold(place) : add(std::move(key), attributes);
}

bool NodeTable::has(const nfs3::nfs_fh3& handle, const nfs3::fattr3& attributes) const {
  const auto known = by_handle_.find({attributes.fsid, handle.data});
  if (known == by_handle_.end()) return false;
  const std::optional<Node>& node = places_[index_of(known->second) - 1].node;
  return node && node->can_have(attributes);
}

NodeTable::Hold NodeTable::find(NodeId id) {
  Place* const place = place_of(id);
  return place != nullptr ? hold(*place) : Hold();
}

void NodeTable::disown(Node& node) {
  const auto known = by_handle_.find(key_of(node));
  if (known != by_handle_.end() && known->second == node.id) by_handle_.erase(known);
}

void NodeTable::add_lookup(Node& node) {
  ++place_of(node.id)->lookups;
}

// A kernel never gives back more than it got; the root stays whatever it says.
void NodeTable::forget(NodeId id, std::uint64_t count) {
  Place* const place = place_of(id);
  if (place == nullptr) return;
  const std::uint64_t least = index_of(id) == 1 ? 1 : 0;
  place->lookups = std::max(least, place->lookups - std::min(place->lookups, count));
  free_if_unused(*place);
}

void NodeTable::let_go(Node& node) {
  Place& place = *place_of(node.id);
  --place.holds;
  free_if_unused(place);
}

void NodeTable::free_if_unused(Place& place) {
  if (place.lookups > 0 || place.holds > 0) return;
  disown(*place.node);
  free_.push_back(index_of(place.node->id));
  uses_of(*place.node).erase(place.use);
  place.node.reset();
  ++place.generation;
  --size_;
}

// --- Forgetting ---------------------------------------------------------------------------------

void NodeTable::note_name(Node& node, NodeId directory, std::string_view name) {
  drop_name(node, directory, name);
  if (node.names.size() >= kNamesMax) {
    // A name that is not kept must go at the kernel, too: it would keep the node there.
    if (displaced_.size() < nodes_max_) displaced_.push_back(std::move(node.names.front()));
    node.names.erase(node.names.begin());
  }
  node.names.push_back({node.id, directory, std::string(name), node.type == nfs3::ftype3::NF3DIR});
}

void NodeTable::drop_name(Node& node, NodeId directory, std::string_view name) {
  std::erase_if(node.names, [&](const NameOfNode& each) {
    return each.directory == directory && each.name == name;
  });
}

// A file that is open has holds.
bool NodeTable::is_forgettable(const Place& place) {
  if (place.holds > 0 || place.node->names.empty()) return false;
  return is_nearly_full() || std::ranges::all_of(place.node->names, [&](const NameOfNode& each) {
           const Place* const parent = place_of(each.directory);
           return parent == nullptr || parent->holds <= parent->node->opened;
         });
}

// Nodes that were looked at go behind all others, so that nobody looks at them again and again.
void NodeTable::take_from(std::list<std::uint32_t>& uses, std::size_t most,
                          std::vector<NameOfNode>& into) {
  const std::size_t looks = std::min(uses.size(), 4 * most);
  for (std::size_t i = 0; i < looks && into.size() < most; ++i) {
    Place& place = places_[uses.front() - 1];
    uses.splice(uses.end(), uses, uses.begin());
    if (!is_forgettable(place)) continue;
    std::ranges::copy(place.node->names, std::back_inserter(into));
  }
}

std::vector<NameOfNode> NodeTable::take_forgettable(std::size_t most) {
  std::vector<NameOfNode> names = std::exchange(displaced_, {});
  // The other half is for programs that are faster than the kernel forgets.
  const std::size_t low = nodes_max_ * 3 / 8;
  if (size_ < nodes_max_ / 2 || names.size() >= most) return names;
  const std::size_t wanted = std::min(most, names.size() + size_ - low);
  take_from(files_, wanted, names);
  if (names.size() < wanted) take_from(directories_, wanted, names);
  return names;
}

}  // namespace mounts
