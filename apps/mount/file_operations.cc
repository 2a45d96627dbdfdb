#include "mount/file_operations.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "mount/name_operations.h"

namespace mounts {
namespace {

using nfs3::nfsstat3;

constexpr std::size_t kAppendingMax = 8;  // threads that open one file to append
constexpr int kOpenToExecute = 040;       // the kernel's FMODE_EXEC

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
    co_await Tree::wait_until_written(tree_.nodes().find(node->id));
    const auto begun = AttributeCache::now_in_order(Tree::now());
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
    auto cut = co_await writes_.cut(tree_.nodes().find(node->id), who);
    if (!cut) co_return failed(cut.error());
  }
  Opened opened;
  const std::uint64_t version = node->attributes.version();
  opened.is_unchanged = std::exchange(node->kernel_version, version) == version;
  opened.id = add(std::move(node), who);
  find(opened.id)->may_write = (flags & O_ACCMODE) != O_RDONLY;
  co_return opened;
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
  co_await writes_.wait_until_clean(tree_.nodes().find(node->id));
  while (node->names_under_way > 0) co_await node->news;
  if (node->opened > 0) co_return;
  writes_.note_last_use(*node);
  if (!node->ours.empty()) {
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
    const auto begun = AttributeCache::now_in_order(Tree::now());
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
    if (tree_.buffers().is_nearly_taken()) return;
    ReadAhead::Block& block = file.ahead.begin(*next, tree_.buffers().take(), Tree::now());
    ++file.reads_under_way;
    reading_.insert(id);
    tree_.turns().begin(read_block(id, block));
  }
}

FileOperations::Given FileOperations::give_blocks(OpenFile& file, std::uint64_t offset,
                                                  std::size_t size, ReadSink& sink, int& error) {
  std::vector<rpcrdma::Bytes> pieces;
  std::uint64_t at = offset;
  for (const std::uint64_t end = offset + size; at < end;) {
    ReadAhead::Block* const block = file.ahead.find(at);
    if (block == nullptr) return Given::kMissing;
    if (block->state == ReadAhead::Block::State::kUnderWay) return Given::kWait;
    if (block->state == ReadAhead::Block::State::kFailed) {
      error = block->error;
      file.ahead.drop_failed(*block);
      return Given::kFailed;
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
  return Given::kAll;
}

Task<Outcome<void>> FileOperations::read(FileId id, std::uint64_t offset, std::size_t size,
                                         ReadSink& sink, Who who) {
  OpenFile* file = find(id);
  if (file == nullptr) co_return failed(EBADF);
  Hold node = tree_.nodes().find(file->node->id);
  size = std::min(size, kTransferMax);
  co_await Tree::wait_until_written(tree_.nodes().find(node->id));
  for (bool is_first = true;; is_first = false) {
    file = find(id);
    if (file == nullptr) co_return failed(EBADF);
    if (is_first &&
        !file->ahead.note_read(offset, size, stamp_of(*node), Tree::now(), size_known(*node))) {
      break;
    }
    read_ahead(id, *file);
    int error = 0;
    const Given given = give_blocks(*file, offset, size, sink, error);
    if (given == Given::kAll) {
      read_ahead(id, *file);
      co_return Outcome<void>();
    }
    if (given == Given::kMissing) break;  // no buffer was free, or something has changed
    if (given == Given::kFailed) co_return failed(error);
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
  co_return writes_.write(*file, offset, buffer, begin, size);
}

Task<Outcome<void>> FileOperations::sync(FileId id) {
  OpenFile* file = find(id);
  if (file == nullptr) co_return failed(EBADF);
  Hold node = tree_.nodes().find(file->node->id);
  co_await writes_.wait_until_clean(tree_.nodes().find(node->id));
  if (node->writes == nullptr) co_return Outcome<void>();
  // A file that is closed by now had waited too long, and its program knows of that.
  file = find(id);
  const int error = file != nullptr ? node->writes->take_error(file->errors_reported)
                                    : node->writes->take_error();
  if (error != 0) co_return failed(error);
  co_return Outcome<void>();
}

// Programs that read would wait for the bytes of others, have the server keep them each time, and
// get errors of which they know nothing.
Task<Outcome<void>> FileOperations::flush(FileId id) {
  const OpenFile* const file = find(id);
  if (file != nullptr && !file->may_write) co_return Outcome<void>();
  co_return co_await sync(id);
}

Task<Outcome<void>> FileOperations::set_size(FileId id, nfs3::sattr3 attributes, Who who) {
  OpenFile* const file = find(id);
  if (file == nullptr) co_return failed(EBADF);
  const auto credential = file->credential;  // the file may be closed meanwhile
  const Who opener{file->uid, credential ? &*credential : nullptr, who.deadline, who.thread};
  co_return co_await writes_.set_size(tree_.nodes().find(file->node->id), attributes, opener);
}

Task<bool> FileOperations::end_all() {
  co_await writes_.flush_all();
  std::vector<FileId> open;
  for (const auto& [id, file] : files_) open.push_back(id);
  for (const FileId each : open) co_await release(each);
  co_return !writes_.has_lost_bytes();
}

// --- Room ---------------------------------------------------------------------------------------

void FileOperations::make_room() {
  for (const FileId each : std::exchange(reading_, {})) find(each)->ahead.drop_all();
  writes_.commit_all();
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
