#include "mount/file_operations.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "mount/change.h"
#include "mount/name_operations.h"

namespace mounts {
namespace {

using nfs3::nfsstat3;

constexpr std::size_t kWritesMax = 16;           // of one file at a time
constexpr std::size_t kSmallWrite = 64U << 10U;  // bytes that are copied to those before them
constexpr int kAttemptsMax = 8;                  // at a file that others change all the time
constexpr std::size_t kAppendingMax = 8;         // threads that open one file to append
constexpr int kOpenToExecute = 040;              // the kernel's FMODE_EXEC

constexpr std::uint32_t kAskedAtOpen =
    nfs3::ACCESS3_READ | nfs3::ACCESS3_MODIFY | nfs3::ACCESS3_EXTEND | nfs3::ACCESS3_EXECUTE;

// Returns whether a program may open a file so, by the server's answer to ACCESS. One that may be
// run, and not read, is read to run it.
bool may_open(std::uint32_t allowed, int flags) {
  const int how = flags & O_ACCMODE;
  const bool may_read = (allowed & nfs3::ACCESS3_READ) != 0 ||
                        ((flags & kOpenToExecute) != 0 && (allowed & nfs3::ACCESS3_EXECUTE) != 0);
  const bool may_write = (allowed & nfs3::ACCESS3_MODIFY) != 0;
  return (how == O_WRONLY || may_read) && (how == O_RDONLY || may_write);
}

// Content that is read belongs to a version of the file, and to what was written here.
std::uint64_t stamp_of(const Node& node) {
  return node.attributes.version() + (node.own_writes << 32U);
}

// Returns where a file ended when the server said so the last time. Bytes behind that are read when
// a program asks for them.
std::uint64_t size_known(const Node& node) {
  const nfs3::fattr3* const last = node.attributes.last();
  return last != nullptr ? last->size : UINT64_MAX;
}

}  // namespace

// --- Opening and closing ------------------------------------------------------------------------

OpenFile* FileOperations::find(FileId id) {
  const auto found = files_.find(id);
  return found != files_.end() ? &found->second : nullptr;
}

FileOperations::FileId FileOperations::add(Hold node, Who who) {
  const FileId id{++last_file_};
  ++node->opened;
  const auto blocks = static_cast<std::uint32_t>(
      std::min<std::size_t>(tree_.buffers().count() / 2, (16U << 20U) / tree_.read_size()));
  const auto made = files_.try_emplace(
      id, std::move(node), std::min<std::uint64_t>(kTransferMax, tree_.read_size()), blocks);
  made.first->second.uid = who.uid;
  const Node& opened = *made.first->second.node;
  if (opened.writes != nullptr) made.first->second.errors_reported = opened.writes->reported();
  if (who.credential != nullptr) made.first->second.credential = *who.credential;
  return id;
}

// It counts from now on: the kernel lets other programs remove the file, or rename another one to
// its name, while the server is asked.
Task<Outcome<FileOperations::Opened>> FileOperations::open(Hold node, int flags, Who who) {
  Hold same = tree_.nodes().find(node->id);
  ++same->opened;
  auto opened = co_await open_counted(std::move(node), flags, who);
  if (--same->opened == 0) co_await end_last_use(std::move(same));
  co_return opened;
}

Task<Outcome<FileOperations::Opened>> FileOperations::open_counted(Hold node, int flags, Who who) {
  // The kernel shows its pages to each program that has opened the file. Without the server's
  // answer, one user's program could read what another user's program has read.
  const auto known = node->access.find(who.uid, who.credential, kAskedAtOpen, Tree::now());
  const bool may_skip = !tree_.options().asks_at_open && known && may_open(*known, flags) &&
                        node->attributes.fresh(Tree::now()) != nullptr;
  if (!may_skip) {
    co_await wait_until_written(tree_.nodes().find(node->id));
    const auto begun = AttributeCache::now_in_order();
    const nfs3::ACCESS3args args{node->handle, kAskedAtOpen};
    auto reply = co_await tree_.calls().access(args, who.as());
    if (!reply) co_return failed(error_of(reply.error()));
    const auto* const answer = reply->resok();
    if (answer == nullptr) co_return failed(tree_.refusal(*node, reply->status()));
    if (!tree_.note(*node, answer->obj_attributes, begun)) co_return failed(ESTALE);
    const std::uint32_t allowed = answer->access;
    if (!may_open(allowed, flags)) co_return failed(EACCES);
    const bool has_attributes = answer->obj_attributes.attributes() != nullptr;
    if (!has_attributes) {
      auto asked = co_await tree_.ask_attributes(*node, who);
      if (!asked) co_return failed(asked.error());
    }
    // A change of ours may have given or taken rights since.
    if (!node->attributes.is_overtaken(begun)) {
      const Time until = Tree::now() + node->attributes.left(Tree::now());
      node->access.note(who.uid, who.credential, kAskedAtOpen, allowed, until);
    }
  }
  if ((flags & O_TRUNC) != 0) {
    auto cut = co_await this->cut(tree_.nodes().find(node->id), who);
    if (!cut) co_return failed(cut.error());
  }
  Opened opened;
  const std::uint64_t version = node->attributes.version();
  opened.is_unchanged = std::exchange(node->kernel_version, version) == version;
  opened.id = add(std::move(node), who);
  co_return opened;
}

// The server compares the time of the last change with the one that it is given. So a call that
// comes late, when its program has long been answered, cuts none of the bytes that came since.
Task<Outcome<void>> FileOperations::set_size(Hold node, nfs3::sattr3 attributes, Who who,
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
Task<Outcome<void>> FileOperations::cut(Hold node, Who who) {
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

FileOperations::Opened FileOperations::open_made(Hold node, Who who) {
  node->kernel_version = node->attributes.version();
  return {add(std::move(node), who), true};
}

bool FileOperations::has_unknown_end(FileId id, int thread) {
  Node& node = *find(id)->node;
  const bool is_second = std::erase(node.appending, thread) > 0;
  if (is_second || node.shown_version == node.attributes.version()) return false;
  if (node.appending.size() == kAppendingMax) node.appending.erase(node.appending.begin());
  node.appending.push_back(thread);
  node.kernel_version = AttributeCache::kNoVersion;  // its pages are of before
  return true;
}

void FileOperations::free_if_unused(FileId id) {
  OpenFile* const file = find(id);
  if (file == nullptr || !file->is_closed || file->reads_under_way > 0) return;
  tree_.statistics().bytes_in_vain += file->ahead.in_vain();
  reading_.erase(id);
  files_.erase(id);
}

Task<void> FileOperations::release(FileId id) {
  OpenFile* const file = find(id);
  if (file == nullptr || file->is_closed) co_return;
  file->is_closed = true;
  file->ahead.drop_all();
  Hold node = tree_.nodes().find(file->node->id);
  free_if_unused(id);
  if (!node || --node->opened > 0) co_return;
  co_await end_last_use(std::move(node));
}

Task<void> FileOperations::end_last_use(Hold node) {
  const GoingName going(tree_, *node);
  co_await wait_until_clean(tree_.nodes().find(node->id));
  while (node->names_under_way > 0) co_await node->news;
  if (node->opened > 0) co_return;
  // Bytes of a mapping may come behind the last close, which reports nothing of them.
  if (node->writes != nullptr && node->writes->take_error() != 0) has_lost_bytes_ = true;
  if (!node->ours.name.empty()) {
    co_await names_.ours().remove(tree_.nodes().find(node->id));
    // Another name of the file has one link less now.
    node->attributes.expire();
    if (report_void_) report_void_(node->id);
  }
}

// --- Reading ------------------------------------------------------------------------------------

Task<FileOperations::ReadResult> FileOperations::read_whole(Hold node, std::uint64_t offset,
                                                            rpcrdma::MutableBytes into, Who who) {
  ReadResult result;
  while (result.count < into.size()) {
    const auto rest =
        into.subspan(result.count)
            .first(std::min<std::size_t>(into.size() - result.count, tree_.read_size()));
    const nfs3::READ3args args{node->handle, offset + result.count,
                               static_cast<std::uint32_t>(rest.size())};
    const auto begun = AttributeCache::now_in_order();
    auto reply = co_await tree_.calls().read(args, rest, who.as());
    if (!reply) {
      result.error = error_of(reply.error());
      co_return result;
    }
    if (reply->attributes) (void)tree_.note(*node, *reply->attributes, begun);
    if (reply->status != nfsstat3::NFS3_OK) {
      result.error = tree_.refusal(*node, reply->status);
      co_return result;
    }
    result.count += reply->count;
    if (reply->is_at_end) break;
  }
  co_return result;
}

Task<void> FileOperations::read_block(FileId id, ReadAhead::Block& block) {
  OpenFile& file = *find(id);
  const auto into = block.buffer.memory().first(file.ahead.block_size());
  // A server may send it byte by byte: programs that wait for the block have one time for all.
  Who own = file.who();
  own.deadline = Tree::now() + tree_.server().call_maker().patience();
  const ReadResult result =
      co_await read_whole(tree_.nodes().find(file.node->id), block.offset, into, own);
  file.ahead.end(block, result.count, result.error);
  tree_.statistics().bytes_read_ahead += result.count;
  --file.reads_under_way;
  file.node->news.notify(tree_.turns());
  free_if_unused(id);
}

void FileOperations::read_ahead(FileId id, OpenFile& file) {
  while (const auto next = file.ahead.next()) {
    // Writes and other files need the rest.
    if (is_short_of_room()) return;
    ReadAhead::Block& block = file.ahead.begin(*next, tree_.buffers().take(), Tree::now());
    ++file.reads_under_way;
    reading_.insert(id);
    tree_.turns().begin(read_block(id, block));
  }
}

int FileOperations::give_blocks(OpenFile& file, std::uint64_t offset, std::size_t size,
                                ReadSink& sink) {
  std::vector<rpcrdma::Bytes> pieces;
  std::uint64_t at = offset;
  for (const std::uint64_t end = offset + size; at < end;) {
    ReadAhead::Block* const block = file.ahead.find(at);
    if (block == nullptr) return ENOENT;
    if (block->state == ReadAhead::Block::State::kUnderWay) return EAGAIN;
    if (block->state == ReadAhead::Block::State::kFailed) {
      const int error = block->error;
      file.ahead.drop_failed(*block);
      return error;
    }
    const std::size_t begin = static_cast<std::size_t>(at - block->offset);
    if (begin >= block->count) break;
    const auto piece =
        rpcrdma::Bytes(block->buffer.memory())
            .subspan(begin, std::min<std::size_t>(block->count - begin,
                                                  static_cast<std::size_t>(end - at)));
    pieces.push_back(piece);
    at += piece.size();
    if (block->count < file.ahead.block_size()) break;  // the file ends there
  }
  sink.give(pieces);
  tree_.statistics().bytes_read += at - offset;
  file.ahead.note_used(offset, at);
  return 0;
}

Task<Outcome<void>> FileOperations::read(FileId id, std::uint64_t offset, std::size_t size,
                                         ReadSink& sink, Who who) {
  OpenFile* file = find(id);
  if (file == nullptr) co_return failed(EBADF);
  Hold node = tree_.nodes().find(file->node->id);
  size = std::min(size, kTransferMax);
  co_await wait_until_written(tree_.nodes().find(node->id));
  for (bool is_first = true;; is_first = false) {
    file = find(id);
    if (file == nullptr) co_return failed(EBADF);
    if (is_first &&
        !file->ahead.note_read(offset, size, stamp_of(*node), Tree::now(), size_known(*node))) {
      break;
    }
    read_ahead(id, *file);
    const int error = give_blocks(*file, offset, size, sink);
    if (error == 0) {
      read_ahead(id, *file);
      co_return Outcome<void>();
    }
    if (error == ENOENT) break;  // no buffer was free, or something has changed
    if (error != EAGAIN) co_return failed(error);
    co_await node->news;
  }
  const auto credential = file->credential;
  const Who own{file->uid, credential ? &*credential : nullptr, who.deadline};
  co_return co_await read_alone(std::move(node), offset, size, own, sink);
}

Task<Outcome<void>> FileOperations::read_alone(Hold node, std::uint64_t offset, std::size_t size,
                                               Who who, ReadSink& sink) {
  const Buffer buffer = co_await take_buffer();
  const auto into = buffer.memory().first(size);
  const ReadResult result = co_await read_whole(std::move(node), offset, into, who);
  // The kernel takes a short answer for the end of the file.
  if (result.error != 0) co_return failed(result.error);
  const std::array<rpcrdma::Bytes, 1> pieces{rpcrdma::Bytes(into.first(result.count))};
  sink.give(pieces);
  tree_.statistics().bytes_read += result.count;
  co_return Outcome<void>();
}

// --- Writing ------------------------------------------------------------------------------------

Task<Outcome<void>> FileOperations::write(FileId id, std::uint64_t offset, Buffer& buffer,
                                          std::size_t begin, std::size_t size) {
  OpenFile* const file = find(id);
  if (file == nullptr) co_return failed(EBADF);
  Node& node = *file->node;
  if (size == 0) co_return Outcome<void>();
  if (node.writes == nullptr) node.writes = std::make_unique<WriteBehind>();
  // A file that the server refuses is not filled further; the flush reports it once more.
  if (node.writes->error() != 0) co_return failed(node.writes->error());
  dirty_.try_emplace(node.id, tree_.nodes().find(node.id));
  ++node.own_writes;
  tree_.statistics().bytes_written += size;
  const auto data = rpcrdma::Bytes(buffer.memory()).subspan(begin, size);
  Writer writer{file->uid, file->credential};
  if (size > kSmallWrite || !node.writes->append(offset, data, writer)) {
    node.writes->add(offset, std::move(buffer), begin, size,
                     Tree::now() + tree_.server().call_maker().patience(), std::move(writer));
  }
  begin_writes(node);
  if (is_short_of_room()) make_room();
  co_return Outcome<void>();
}

void FileOperations::begin_writes(Node& node) {
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
  if (has_failed) node.news.notify(tree_.turns());
}

Task<void> FileOperations::write_piece(Hold node, WriteBehind::Piece& piece, nfs3::WRITE3args args,
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
bool FileOperations::goes_again(const Node& node, int error, Time called,
                                Time since) const noexcept {
  const auto least = tree_.server().call_maker().patience() / 2;
  const bool had_its_time = error == EIO && Tree::now() >= called + least;
  if (error != ETIMEDOUT && !had_its_time) return false;
  return node.last_written > since || line_.is_waiting(since);
}

Task<void> FileOperations::commit(Hold node) {
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

// The caller holds the node.
void FileOperations::after_news(Node& node) {
  begin_writes(node);
  if (node.writes->is_clean()) dirty_.erase(node.id);
  node.news.notify(tree_.turns());
  if (is_short_of_room()) make_room();
}

Task<void> FileOperations::wait_until_written(Hold node) {
  return Tree::wait_until_written(std::move(node));
}

Task<void> FileOperations::wait_until_clean(Hold node) {
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

Task<Outcome<void>> FileOperations::flush(Hold node) {
  co_await wait_until_clean(tree_.nodes().find(node->id));
  const int error = node->writes != nullptr ? node->writes->take_error() : 0;
  if (error != 0) co_return failed(error);
  co_return Outcome<void>();
}

Task<Outcome<void>> FileOperations::flush(FileId id) {
  OpenFile* file = find(id);
  if (file == nullptr) co_return failed(EBADF);
  Hold node = tree_.nodes().find(file->node->id);
  co_await wait_until_clean(tree_.nodes().find(node->id));
  if (node->writes == nullptr) co_return Outcome<void>();
  // A file that is closed by now had waited too long, and its program knows of that.
  file = find(id);
  const int error = file != nullptr ? node->writes->take_error(file->errors_reported)
                                    : node->writes->take_error();
  if (error != 0) co_return failed(error);
  co_return Outcome<void>();
}

Task<bool> FileOperations::end_all() {
  while (!dirty_.empty()) {
    Hold node = tree_.nodes().find(dirty_.begin()->first);
    auto flushed = co_await flush(std::move(node));
    if (!flushed) has_lost_bytes_ = true;
  }
  std::vector<FileId> open;
  for (const auto& [id, file] : files_) open.push_back(id);
  for (const FileId each : open) co_await release(each);
  co_return !has_lost_bytes_;
}

// --- Room ---------------------------------------------------------------------------------------

bool FileOperations::is_short_of_room() const noexcept {
  return tree_.buffers().free_count() <= tree_.buffers().count() / 4;
}

void FileOperations::make_room() {
  for (const FileId each : std::exchange(reading_, {})) find(each)->ahead.drop_all();
  std::vector<NodeId> ready;
  for (const auto& [id, node] : dirty_) {
    if (node->writes->needs_commit() && !node->writes->is_committing()) ready.push_back(id);
  }
  // A commit that ends at once takes its node out of the list.
  for (const NodeId each : ready) {
    Hold node = tree_.nodes().find(each);
    if (node && node->writes->needs_commit() && !node->writes->is_committing()) {
      tree_.turns().begin(commit(std::move(node)));
    }
  }
}

Task<Buffer> FileOperations::take_buffer() {
  for (;;) {
    Buffer buffer = tree_.buffers().take();
    if (buffer) co_return buffer;
    make_room();
    // A buffer that came back in there woke nobody.
    if (tree_.buffers().free_count() == 0) co_await returned_;
  }
}

}  // namespace mounts
