#include "mount/tree.h"

#include <algorithm>
#include <cerrno>

namespace mounts {
namespace {

using nfs3::nfsstat3;

// A request of the kernel to write has a header in front of its bytes.
constexpr std::size_t kBufferSize = kTransferMax + (64U << 10U);
constexpr std::size_t kBuffersMin = 8;
constexpr Clock::duration kWaitForRoom = std::chrono::seconds(1);
constexpr Clock::duration kWaitToSendBack = std::chrono::milliseconds(100);
constexpr std::size_t kSentBackMax = 1000;
constexpr Clock::duration kPauseForRoom = std::chrono::milliseconds(5);

}  // namespace

Tree::Tree(nfs::Mounted& server, nfs::Turns& turns, const TreeOptions& options)
    : server_(server),
      turns_(turns),
      options_(options),
      calls_(server.call_maker(), &turns),
      buffers_(std::max(kBuffersMin, options.memory / kBufferSize), kBufferSize),
      registered_(server.connections().use_memory(buffers_.all())),
      nodes_(options_.time_outs, options_.nodes_max),
      names_(options_.nodes_max) {}

Task<Outcome<void>> Tree::begin() {
  const auto begun = AttributeCache::now_in_order(now());
  auto found = co_await server_.look_up_path(server_.path());
  if (!found) co_return failed(error_of(found.error()));
  if (found->attributes.type != nfs3::ftype3::NF3DIR) co_return failed(ENOTDIR);
  const Hold root = nodes_.add_root(found->handle, found->attributes);
  (void)root->attributes.take(found->attributes, begun);
  co_return Outcome<void>();
}

Task<Outcome<Tree::Asked>> Tree::ask_attributes(Node& node, Who who) {
  const auto begun = AttributeCache::now_in_order(now());
  const nfs3::GETATTR3args args{node.handle};
  ++statistics_.attributes_asked;
  auto reply = co_await calls_.get_attributes(args, who.as());
  if (!reply) co_return failed(error_of(reply.error()));
  if (reply->resok() == nullptr) co_return failed(refusal(node, reply->status()));
  const nfs3::fattr3 found = reply->resok()->obj_attributes;
  if (!node.can_have(found)) co_return failed(refusal(node, nfsstat3::NFS3ERR_STALE));
  if (node.attributes.take(found, begun)) {
    co_return Asked{found, node.attributes.version()};
  }
  if (const nfs3::fattr3* const fresh = node.attributes.fresh(now())) {
    co_return Asked{*fresh, node.attributes.version()};
  }
  co_return Asked{found, AttributeCache::kNoVersion};
}

Task<void> Tree::wait_until_written(Hold node) {
  if (node->writes == nullptr) co_return;
  const std::uint64_t last = node->writes->last();
  while (!node->writes->is_written_to(last)) co_await node->news;
}

int Tree::refusal(Node& node, nfsstat3 status) {
  const int error = error_of(status);
  if (error == ESTALE) {
    node.attributes.expire();
    nodes_.disown(node);
  }
  return error;
}

bool Tree::note(Node& node, const nfs3::post_op_attr& attributes, AttributeCache::Point begun) {
  const nfs3::fattr3* const found = attributes.attributes();
  return found == nullptr || note(node, *found, begun);
}

bool Tree::note(Node& node, const nfs3::fattr3& attributes, AttributeCache::Point begun) {
  if (!node.can_have(attributes)) {
    (void)refusal(node, nfsstat3::NFS3ERR_STALE);
    return false;
  }
  (void)node.attributes.take(attributes, begun);
  return true;
}

Entry Tree::entry_of(Hold node, Node& parent, std::string_view name, const nfs3::fattr3& attributes,
                     bool is_current) {
  if (is_current) names_.note(parent.id, name, node->id, parent.attributes.version());
  nodes_.note_name(*node, parent.id, name);
  Entry entry;
  entry.attributes = attributes;
  entry.version = node->attributes.version();
  entry.attributes_left = node->attributes.left(now());
  if (is_current) {
    entry.left = std::min(parent.attributes.left(now()), entry.attributes_left);
  }
  entry.node = std::move(node);
  return entry;
}

void Tree::note_empty(Node& directory, Who who, Time begun) {
  drop_expired();
  const auto life =
      std::min<Clock::duration>(options_.new_directory_life, options_.time_outs.directory_min);
  directory.made_here = std::make_unique<NewDirectory>(directory.attributes.version(), who.uid,
                                                       life, begun, names_of_new_);
  made_here_.push_back(directory.id);
}

// Two for each that comes, so that those which nobody looks into any more go as fast.
void Tree::drop_expired() {
  for (int i = 0; i < 2 && !made_here_.empty(); ++i) {
    const Hold oldest = nodes_.find(made_here_.front());
    made_here_.pop_front();
    if (!oldest || !oldest->made_here) continue;
    if (oldest->made_here->holds(oldest->attributes.version(), now())) {
      made_here_.push_back(oldest->id);
    } else {
      oldest->made_here.reset();
    }
  }
}

void Tree::note_possible(Node& directory, std::string_view name) {
  if (directory.made_here && !directory.made_here->add(name, now(), options_.nodes_max)) {
    directory.made_here.reset();
  }
}

Clock::duration Tree::certain_lack(Node& directory, std::string_view name, Who who) {
  const Clock::duration left = directory.attributes.left(now());
  if (!directory.made_here || left <= Clock::duration{}) return {};
  if (!directory.made_here->holds(directory.attributes.version(), now())) {
    directory.made_here.reset();
    return {};
  }
  if (!directory.made_here->lacks(name, who.uid)) return {};
  return std::min(left, directory.made_here->end() - now());
}

void Tree::note_shown(Node& node, std::uint64_t version) {
  nodes_.add_lookup(node);
  node.shown_version = version;
}

// A request keeps its directory locked at the kernel, which can forget none of the names in there
// meanwhile. If all that could go is in directories where programs wait for room, they would wait
// in vain. For ESTALE the kernel unlocks the directory and begins anew, once; who waited for the
// lock to forget a name comes first.
Task<int> Tree::wait_for_room(Who who) {
  const bool may_go_back = who.thread != 0 && sent_back_.erase(who.thread) == 0;
  const Time end = std::min(now() + (may_go_back ? kWaitToSendBack : kWaitForRoom), who.deadline);
  while (nodes_.is_full()) {
    if (now() < end) {
      co_await turns_.pause(kPauseForRoom);
      continue;
    }
    if (!may_go_back) co_return ENFILE;
    // Few threads never come again; a number that is left here spares its next one the way back.
    if (sent_back_.size() >= kSentBackMax) sent_back_.clear();
    sent_back_.insert(who.thread);
    co_return ESTALE;
  }
  co_return 0;
}

}  // namespace mounts
