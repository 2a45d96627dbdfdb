#include "mount/file_writes.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "mount/change.h"

namespace mounts {
namespace {

using nfs3::nfsstat3;

constexpr std::size_t kWritesMax = 16;           // of one file at a time
constexpr std::size_t kSmallWrite = 64U << 10U;  // bytes that are copied to those before them
constexpr int kAttemptsMax = 8;                  // at a file that others change all the time

}  // namespace

// --- Writing ------------------------------------------------------------------------------------

Outcome<void> FileWrites::write(OpenFile& file, std::uint64_t offset, Buffer& buffer,
                                std::size_t begin, std::size_t size) {
  Node& node = *file.node;
  if (size == 0) return {};
  if (node.writes == nullptr) node.writes = std::make_unique<WriteBehind>();
  // A file that the server refuses is not filled further; the flush reports it once more.
  if (node.writes->error() != 0) return failed(node.writes->error());
  dirty_.try_emplace(node.id, tree_.nodes().find(node.id));
  ++node.own_writes;
  tree_.statistics().bytes_written += size;
  const auto data = rpcrdma::Bytes(buffer.memory()).subspan(begin, size);
  Writer writer{file.uid, file.credential};
  if (size > kSmallWrite || !node.writes->append(offset, data, writer)) {
    node.writes->add(offset, std::move(buffer), begin, size,
                     Tree::now() + tree_.server().call_maker().patience(), std::move(writer));
  }
  begin_writes(node);
  make_room_if_short();
  return {};
}

void FileWrites::begin_writes(Node& node) {
  if (node.cuts_under_way > 0) return;
  bool has_failed = false;
  while (node.writes->under_way() < kWritesMax) {
    WriteBehind::Piece* const piece = node.writes->begin_write();
    if (piece == nullptr) break;
    // A server that takes bytes of this file is not gone, however many wait for it.
    const auto patience = tree_.server().call_maker().patience();
    const Time deadline = std::max(piece->deadline, node.last_written + patience);
    if (deadline <= Tree::now()) {
      node.writes->fail_write(*piece, ETIMEDOUT);
      has_failed = true;
      continue;
    }
    const auto data =
        piece->data().first(std::min<std::size_t>(piece->data().size(), tree_.write_size()));
    const nfs3::WRITE3args args{node.handle, piece->offset + piece->done,
                                static_cast<std::uint32_t>(data.size()), nfs3::stable_how::UNSTABLE,
                                data};
    tree_.turns().begin(write_piece(tree_.nodes().find(node.id), *piece, args, deadline));
  }
  if (has_failed) settle(node);
}

// The caller holds the node.
void FileWrites::settle(Node& node) {
  if (node.writes->is_clean()) dirty_.erase(node.id);
  node.news.notify(tree_.turns());
}

Task<void> FileWrites::write_piece(Hold node, WriteBehind::Piece& piece, nfs3::WRITE3args args,
                                   Time deadline) {
  // The program's credential, and the piece, may be gone before its bytes are.
  const Writer writer = piece.writer;
  const Who own{writer.uid, writer.credential ? &*writer.credential : nullptr, deadline};
  const auto patience = tree_.server().call_maker().patience();
  Change change(*node);
  const Time called = Tree::now();
  auto reply = co_await tree_.calls().write(args, own.as());
  change.end(reply ? nfs::file_change(*reply) : nullptr);
  ++node->own_writes;
  if (!reply) {
    const int error = error_of(reply.error());
    const Time since = std::min(called, piece.deadline - patience);
    if (goes_again(*node, error, called, since)) {
      const Time progress = std::max(node->last_written, line_.last_taken());
      node->writes->repeat_write(piece, progress + patience);
    } else {
      node->writes->fail_write(piece, error);
    }
  } else if (const auto* const done = reply->resok()) {
    node->last_written = Tree::now();
    // One that went once more has waited since its bytes came.
    line_.note_taken(std::min(called, piece.first_deadline - patience), node->last_written);
    const bool is_stable = done->committed != nfs3::stable_how::UNSTABLE;
    node->writes->end_write(piece, done->count, is_stable, done->verf);
  } else {
    node->writes->fail_write(piece, tree_.refusal(*node, reply->status()));
  }
  after_news(*node);
}

// A call without an answer in its time may have waited for those before it, on a link that is slow.
// Its connection may have gone shortly before, with others that were given up; one that loses them
// faster may be the cause.
bool FileWrites::goes_again(const Node& node, int error, Time called, Time since) const noexcept {
  const auto least = tree_.server().call_maker().patience() / 2;
  const bool had_its_time = error == EIO && Tree::now() >= called + least;
  if (error != ETIMEDOUT && !had_its_time) return false;
  return node.last_written > since || line_.is_waiting(since);
}

Task<void> FileWrites::commit(Hold node) {
  node->writes->begin_commit();
  ++tree_.statistics().commits;
  const Writer writer = node->writes->writer_to_commit();
  const Who who{writer.uid, writer.credential ? &*writer.credential : nullptr};
  const nfs3::COMMIT3args args{node->handle, 0, 0};
  const Time called = Tree::now();
  auto reply = co_await tree_.calls().commit(args, who.as());
  const std::uint64_t twice = node->writes->written_twice();
  if (!reply) {
    const int error = error_of(reply.error());
    if (goes_again(*node, error, called, called)) {
      node->writes->give_up_commit();
    } else {
      node->writes->fail_commit(error);
    }
  } else if (const auto* const done = reply->resok()) {
    node->writes->end_commit(done->verf);
  } else {
    node->writes->fail_commit(tree_.refusal(*node, reply->status()));
  }
  tree_.statistics().bytes_written_twice += node->writes->written_twice() - twice;
  after_news(*node);
}

void FileWrites::after_news(Node& node) {
  begin_writes(node);
  settle(node);
  make_room_if_short();
}

void FileWrites::make_room_if_short() {
  if (tree_.buffers().is_nearly_taken()) make_room_();
}

// A commit that ends at once takes its node out of the list.
void FileWrites::commit_all() {
  std::vector<NodeId> ready;
  for (const auto& [id, node] : dirty_) {
    if (node->writes->needs_commit() && !node->writes->is_committing()) ready.push_back(id);
  }
  for (const NodeId each : ready) {
    Hold node = tree_.nodes().find(each);
    if (node && node->writes->needs_commit() && !node->writes->is_committing()) {
      tree_.turns().begin(commit(std::move(node)));
    }
  }
}

// --- Waiting for the server ---------------------------------------------------------------------

Task<void> FileWrites::wait_until_clean(Hold node) {
  if (node->writes == nullptr) co_return;
  const std::uint64_t last = node->writes->last();
  while (!node->writes->is_clean_to(last)) {
    if (node->writes->needs_commit() && node->writes->is_written_to(last) &&
        !node->writes->is_committing()) {
      co_await commit(tree_.nodes().find(node->id));
    } else {
      co_await node->news;
    }
  }
}

Task<Outcome<void>> FileWrites::flush(Hold node) {
  co_await wait_until_clean(tree_.nodes().find(node->id));
  const int error = node->writes != nullptr ? node->writes->take_error() : 0;
  if (error != 0) co_return failed(error);
  co_return Outcome<void>();
}

Task<void> FileWrites::flush_all() {
  while (!dirty_.empty()) {
    const Hold node = tree_.nodes().find(dirty_.begin()->first);
    auto flushed = co_await flush(tree_.nodes().find(node->id));
    if (!flushed) has_lost_bytes_ = true;
    settle(*node);
  }
}

void FileWrites::note_last_use(Node& node) {
  if (node.writes != nullptr && node.writes->take_error() != 0) has_lost_bytes_ = true;
}

// --- Sizes --------------------------------------------------------------------------------------

// The server compares the time of the last change with the one that it is given. So a call that
// comes late, when its program has long been answered, cuts none of the bytes that came since.
Task<Outcome<void>> FileWrites::set_size(Hold node, nfs3::sattr3 attributes, Who who,
                                         Others others) {
  const auto additions = [&] { return node->writes != nullptr ? node->writes->additions() : 0; };
  const std::uint64_t before = additions();
  const std::uint64_t size = *attributes.size.size();
  if (others == Others::kWait) co_await wait_until_clean(tree_.nodes().find(node->id));
  ++node->own_writes;
  for (int i = 0; i < kAttemptsMax; ++i) {
    nfs3::SETATTR3args args{node->handle, attributes, {}};
    const nfs3::fattr3* known = node->attributes.fresh(Tree::now());
    if (known == nullptr) {
      auto asked = co_await tree_.ask_attributes(*node, who);
      if (!asked) co_return failed(asked.error());
      args.guard.set_obj_ctime(asked->attributes.ctime);
    } else {
      args.guard.set_obj_ctime(known->ctime);
    }
    // The kernel has given this up, or it would have let nobody write: it would cut these bytes.
    if ((others == Others::kWait && additions() != before) || Tree::now() >= who.deadline) {
      co_return failed(ETIMEDOUT);
    }
    bool was_repeated = false;
    Change change(*node);
    auto reply = co_await tree_.calls().set_attributes(args, who.as(&was_repeated));
    change.end(reply ? object_change(*reply) : nullptr);
    node->access.clear();
    ++node->own_writes;
    if (!reply) co_return failed(error_of(reply.error()));
    if (reply->resok() != nullptr) co_return Outcome<void>();
    if (reply->status() != nfsstat3::NFS3ERR_NOT_SYNC) {
      co_return failed(tree_.refusal(*node, reply->status()));
    }
    // Somebody else has changed the file, or an earlier one of these calls has.
    auto now = co_await tree_.ask_attributes(*node, who);
    if (!now) co_return failed(now.error());
    if (was_repeated && now->attributes.size == size) co_return Outcome<void>();
  }
  co_return failed(EIO);
}

// The kernel lets others write meanwhile: their bytes wait here, and go to the file that was cut.
Task<Outcome<void>> FileWrites::cut(Hold node, Who who) {
  co_await wait_until_clean(tree_.nodes().find(node->id));
  ++node->cuts_under_way;
  while (node->writes != nullptr && node->writes->under_way() > 0) co_await node->news;
  if (node->writes != nullptr) node->writes->write_whole();
  nfs3::sattr3 empty;
  empty.size.set_size(0);
  auto done = co_await set_size(tree_.nodes().find(node->id), empty, who, Others::kHeldBack);
  if (--node->cuts_under_way == 0 && node->writes != nullptr) begin_writes(*node);
  co_return done;
}

}  // namespace mounts
