// The table of operations that libfuse calls: each starts a coroutine that answers its request.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mount/fuse_session.h"

namespace mounts {

struct stat stat_of(const nfs3::fattr3& attributes) noexcept {
  using nfs3::ftype3;
  const auto type = [&]() -> mode_t {
    switch (attributes.type) {
      case ftype3::NF3REG:
        return S_IFREG;
      case ftype3::NF3DIR:
        return S_IFDIR;
      case ftype3::NF3BLK:
        return S_IFBLK;
      case ftype3::NF3CHR:
        return S_IFCHR;
      case ftype3::NF3LNK:
        return S_IFLNK;
      case ftype3::NF3SOCK:
        return S_IFSOCK;
      case ftype3::NF3FIFO:
        return S_IFIFO;
    }
    return S_IFREG;
  };
  const auto time = [](const nfs3::nfstime3& of) {
    // libfuse's time_t may have 32 bits.
    const auto most = static_cast<std::uint64_t>(std::numeric_limits<time_t>::max());
    return timespec{static_cast<time_t>(std::min<std::uint64_t>(of.seconds, most)),
                    static_cast<long>(std::min<std::uint32_t>(of.nseconds, 999'999'999))};
  };
  struct stat made {};
  made.st_ino = attributes.fileid;
  made.st_mode = type() | (attributes.mode & 07777U);
  made.st_nlink = attributes.nlink;
  made.st_uid = attributes.uid;
  made.st_gid = attributes.gid;
  // The kernel takes sizes up to 2^63 - 1.
  made.st_size = static_cast<off_t>(std::min<std::uint64_t>(attributes.size, INT64_MAX));
  made.st_blocks = static_cast<blkcnt_t>(std::min<std::uint64_t>(attributes.used, INT64_MAX) / 512);
  made.st_blksize = static_cast<blksize_t>(kTransferMax);
  made.st_rdev = makedev(attributes.rdev.specdata1, attributes.rdev.specdata2);
  made.st_atim = time(attributes.atime);
  made.st_mtim = time(attributes.mtime);
  made.st_ctim = time(attributes.ctime);
  return made;
}

namespace {

using FileId = FileOperations::FileId;
using DirectoryId = DirectoryOperations::DirectoryId;

Hold node_of(Session& session, fuse_ino_t number) {
  return session.tree().nodes().find(NodeId{number});
}

// Answers with an entry.
int answer(Session& session, Request& request, const Outcome<Entry>& entry) {
  if (!entry) return entry.error();
  if (!entry->node && entry->left <= Clock::duration{}) return ENOENT;
  const fuse_entry_param shown = session.entry_for_kernel(*entry);
  if (request.entry(shown) && entry->node) session.tree().note_shown(*entry->node, entry->version);
  return 0;
}
// Answers with attributes of a node that the kernel has.
int answer(Session& session, Request& request, Node& node,
           const Outcome<AttributeOperations::Shown>& found) {
  if (!found) return found.error();
  if (request.attributes(session.shown(found->attributes), in_seconds(found->left))) {
    node.shown_version = found->version;
  }
  return 0;
}
int answer(Request& request, const Outcome<void>& outcome) {
  if (!outcome) return outcome.error();
  request.fail(0);
  return 0;
}

// --- Names --------------------------------------------------------------------------------------

void look_up(fuse_req_t handle, fuse_ino_t parent, const char* name) {
  Session& session = Session::of(handle);
  session.serve(
      handle, [&session, parent, named = std::string(name)](Request& request) -> Task<int> {
        Hold directory = node_of(session, parent);
        if (!directory) co_return ESTALE;
        auto entry = co_await session.names().look_up(std::move(directory), named, request.who());
        co_return answer(session, request, entry);
      });
}

void forget(fuse_req_t handle, fuse_ino_t number, std::uint64_t count) {
  Session::of(handle).tree().nodes().forget(NodeId{number}, count);
  ::fuse_reply_none(handle);
}

void forget_several(fuse_req_t handle, std::size_t count, fuse_forget_data* all) {
  for (std::size_t i = 0; i < count; ++i) {
    Session::of(handle).tree().nodes().forget(NodeId{all[i].ino}, all[i].nlookup);
  }
  ::fuse_reply_none(handle);
}

void make_node(fuse_req_t handle, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  Session& session = Session::of(handle);
  session.serve(
      handle,
      [&session, parent, named = std::string(name), mode, device](Request& request) -> Task<int> {
        Hold directory = node_of(session, parent);
        if (!directory) co_return ESTALE;
        const nfs3::specdata3 number{major(device), minor(device)};
        auto entry = co_await session.names().make_node(std::move(directory), named, mode, number,
                                                        request.who());
        co_return answer(session, request, entry);
      });
}

void make_directory(fuse_req_t handle, fuse_ino_t parent, const char* name, mode_t mode) {
  Session& session = Session::of(handle);
  session.serve(handle,
                [&session, parent, named = std::string(name), mode](Request& request) -> Task<int> {
                  Hold directory = node_of(session, parent);
                  if (!directory) co_return ESTALE;
                  auto entry = co_await session.names().make_directory(std::move(directory), named,
                                                                       mode, request.who());
                  co_return answer(session, request, entry);
                });
}

void make_symbolic_link(fuse_req_t handle, const char* target, fuse_ino_t parent,
                        const char* name) {
  Session& session = Session::of(handle);
  session.serve(handle,
                [&session, parent, named = std::string(name),
                 to = std::string(target)](Request& request) -> Task<int> {
                  Hold directory = node_of(session, parent);
                  if (!directory) co_return ESTALE;
                  auto entry = co_await session.names().make_symbolic_link(
                      std::move(directory), named, to, request.who());
                  co_return answer(session, request, entry);
                });
}

void make_link(fuse_req_t handle, fuse_ino_t number, fuse_ino_t parent, const char* name) {
  Session& session = Session::of(handle);
  session.serve(
      handle, [&session, number, parent, named = std::string(name)](Request& request) -> Task<int> {
        Hold file = node_of(session, number), directory = node_of(session, parent);
        if (!file || !directory) co_return ESTALE;
        auto entry = co_await session.names().link(std::move(file), std::move(directory), named,
                                                   request.who());
        co_return answer(session, request, entry);
      });
}

void remove_name(fuse_req_t handle, fuse_ino_t parent, const char* name) {
  Session& session = Session::of(handle);
  session.serve(
      handle, [&session, parent, named = std::string(name)](Request& request) -> Task<int> {
        Hold directory = node_of(session, parent);
        if (!directory) co_return ESTALE;
        auto removed = co_await session.names().remove(std::move(directory), named, request.who());
        co_return answer(request, removed);
      });
}

void remove_directory(fuse_req_t handle, fuse_ino_t parent, const char* name) {
  Session& session = Session::of(handle);
  session.serve(
      handle, [&session, parent, named = std::string(name)](Request& request) -> Task<int> {
        Hold directory = node_of(session, parent);
        if (!directory) co_return ESTALE;
        auto removed =
            co_await session.names().remove_directory(std::move(directory), named, request.who());
        co_return answer(request, removed);
      });
}

// NFS has no exchange, and no renaming that leaves a file alone: without them a file would be lost.
void rename_name(fuse_req_t handle, fuse_ino_t from, const char* name, fuse_ino_t to,
                 const char* new_name, unsigned flags) {
  Session& session = Session::of(handle);
  session.serve(handle,
                [&session, from, to, flags, named = std::string(name),
                 renamed = std::string(new_name)](Request& request) -> Task<int> {
                  if (flags != 0) co_return EINVAL;
                  Hold source = node_of(session, from), target = node_of(session, to);
                  if (!source || !target) co_return ESTALE;
                  auto done = co_await session.names().rename(
                      std::move(source), named, std::move(target), renamed, request.who());
                  co_return answer(request, done);
                });
}

// --- Attributes ---------------------------------------------------------------------------------

void get_attributes(fuse_req_t handle, fuse_ino_t number, fuse_file_info* /*file*/) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session, number](Request& request) -> Task<int> {
    Hold node = node_of(session, number);
    if (!node) co_return ESTALE;
    auto found = co_await session.attributes().get(node_of(session, number), request.who());
    co_return answer(session, request, *node, found);
  });
}

// Times of NFS are seconds of 1970 to 2106.
bool is_possible(const timespec& time) {
  return time.tv_sec >= 0 && static_cast<std::uint64_t>(time.tv_sec) <= UINT32_MAX;
}
nfs3::nfstime3 time_of(const timespec& time) {
  return {static_cast<std::uint32_t>(time.tv_sec), static_cast<std::uint32_t>(time.tv_nsec)};
}

int changes_of(const struct stat& wanted, int which, nfs3::sattr3& changes) {
  if ((which & FUSE_SET_ATTR_MODE) != 0) changes.mode.set_mode(wanted.st_mode & 07777U);
  if ((which & FUSE_SET_ATTR_UID) != 0) changes.uid.set_uid(wanted.st_uid);
  if ((which & FUSE_SET_ATTR_GID) != 0) changes.gid.set_gid(wanted.st_gid);
  if ((which & FUSE_SET_ATTR_SIZE) != 0) {
    changes.size.set_size(static_cast<std::uint64_t>(wanted.st_size));
  }
  if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    changes.atime.set_void(nfs3::time_how::SET_TO_SERVER_TIME);
  } else if ((which & FUSE_SET_ATTR_ATIME) != 0) {
    if (!is_possible(wanted.st_atim)) return EINVAL;
    changes.atime.set_atime_(time_of(wanted.st_atim));
  }
  if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    changes.mtime.set_void(nfs3::time_how::SET_TO_SERVER_TIME);
  } else if ((which & FUSE_SET_ATTR_MTIME) != 0) {
    if (!is_possible(wanted.st_mtim)) return EINVAL;
    changes.mtime.set_mtime_(time_of(wanted.st_mtim));
  }
  return 0;
}

// The kernel names a file for ftruncate(2) alone.
void set_attributes(fuse_req_t handle, fuse_ino_t number, struct stat* wanted, int which,
                    fuse_file_info* file) {
  Session& session = Session::of(handle);
  std::optional<FileId> cut;
  if (file != nullptr && (which & FUSE_SET_ATTR_SIZE) != 0) cut = FileId{file->fh};
  session.serve(
      handle, [&session, number, which, cut, values = *wanted](Request& request) -> Task<int> {
        Hold node = node_of(session, number);
        if (!node) co_return ESTALE;
        nfs3::sattr3 changes;
        if (const int error = changes_of(values, which, changes); error != 0) co_return error;
        if (cut) {
          auto done = co_await session.files().set_size(*cut, changes, request.who());
          if (!done) co_return done.error();
          auto now = co_await session.attributes().get(node_of(session, number), request.who());
          co_return answer(session, request, *node, now);
        }
        auto now =
            co_await session.attributes().set(node_of(session, number), changes, request.who());
        co_return answer(session, request, *node, now);
      });
}

void check_access(fuse_req_t handle, fuse_ino_t number, int mask) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session, number, mask](Request& request) -> Task<int> {
    Hold node = node_of(session, number);
    if (!node) co_return ESTALE;
    auto allowed = co_await session.attributes().check_access(std::move(node), mask, request.who());
    co_return answer(request, allowed);
  });
}

void read_link(fuse_req_t handle, fuse_ino_t number) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session, number](Request& request) -> Task<int> {
    Hold node = node_of(session, number);
    if (!node) co_return ESTALE;
    auto target = co_await session.attributes().read_link(std::move(node), request.who());
    if (!target) co_return target.error();
    request.text(*target);
    co_return 0;
  });
}

void show_space(fuse_req_t handle, fuse_ino_t /*number*/) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session](Request& request) -> Task<int> {
    auto space = co_await session.attributes().space(request.who());
    if (!space) co_return space.error();
    constexpr std::uint64_t kBlock = 4096;
    struct statvfs shown {};
    shown.f_bsize = shown.f_frsize = kBlock;
    shown.f_blocks = space->tbytes / kBlock;
    shown.f_bfree = space->fbytes / kBlock;
    shown.f_bavail = space->abytes / kBlock;
    shown.f_files = space->tfiles;
    shown.f_ffree = space->ffiles;
    shown.f_favail = space->afiles;
    shown.f_namemax = nfs3::NFS3_NAME_MAX;
    request.space(shown);
    co_return 0;
  });
}

// --- Files --------------------------------------------------------------------------------------

void open_file(fuse_req_t handle, fuse_ino_t number, fuse_file_info* file) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session, number, made = *file](Request& request) mutable -> Task<int> {
    Hold node = node_of(session, number);
    if (!node) co_return ESTALE;
    auto opened = co_await session.files().open(std::move(node), made.flags, request.who());
    if (!opened) co_return opened.error();
    const bool appends = (made.flags & O_APPEND) != 0 && (made.flags & O_TRUNC) == 0;
    if (appends && session.files().has_unknown_end(opened->id, request.thread())) {
      // The kernel appends behind the size that it knows. For this error it looks the name up
      // once, which shows it the new size, and opens the file again.
      co_await session.files().release(opened->id);
      co_return ESTALE;
    }
    made.fh = static_cast<std::uint64_t>(opened->id);
    made.keep_cache = opened->is_unchanged ? 1 : 0;
    // The reply has no attributes: without this a file that has grown would end where it did.
    if (!opened->is_unchanged) session.report_void(NodeId{number});
    if (!request.opened(made)) co_await session.files().release(opened->id);
    co_return 0;
  });
}

void create_file(fuse_req_t handle, fuse_ino_t parent, const char* name, mode_t mode,
                 fuse_file_info* file) {
  Session& session = Session::of(handle);
  session.serve(handle,
                [&session, parent, mode, named = std::string(name),
                 made = *file](Request& request) mutable -> Task<int> {
                  Hold directory = node_of(session, parent);
                  if (!directory) co_return ESTALE;
                  const bool is_exclusive = (made.flags & O_EXCL) != 0;
                  auto created = co_await session.names().create(std::move(directory), named, mode,
                                                                 is_exclusive, request.who());
                  if (!created) co_return created.error();
                  Entry& entry = created->entry;
                  const NodeId id = entry.node->id;
                  FileOperations::Opened opened;
                  if (created->was_made) {
                    opened =
                        session.files().open_made(session.tree().nodes().find(id), request.who());
                  } else {
                    auto found = co_await session.files().open(session.tree().nodes().find(id),
                                                               made.flags, request.who());
                    if (!found) co_return found.error();
                    opened = *found;
                    // It may have been cut, or have grown since it was found.
                    const AttributeCache& attributes = entry.node->attributes;
                    if (const auto* const fresh = attributes.fresh(Clock::now())) {
                      entry.attributes = *fresh;
                      entry.version = attributes.version();
                    } else if ((made.flags & O_TRUNC) != 0) {
                      entry.attributes.size = 0;
                    }
                  }
                  made.fh = static_cast<std::uint64_t>(opened.id);
                  if (request.created(session.entry_for_kernel(entry), made)) {
                    session.tree().note_shown(*entry.node, entry.version);
                  } else {
                    co_await session.files().release(opened.id);
                  }
                  co_return 0;
                });
}

class Answer final : public ReadSink {
 public:
  explicit Answer(Request& request) : request_(request) {}
  void give(std::span<const rpcrdma::Bytes> pieces) override { request_.data(pieces); }

 private:
  Request& request_;
};

void read_file(fuse_req_t handle, fuse_ino_t /*number*/, std::size_t size, off_t offset,
               fuse_file_info* file) {
  Session& session = Session::of(handle);
  const FileId id{file->fh};
  session.serve(handle, [&session, id, size, offset](Request& request) -> Task<int> {
    Answer sink(request);
    auto done = co_await session.files().read(id, static_cast<std::uint64_t>(offset), size, sink,
                                              request.who());
    co_return done ? 0 : done.error();
  });
}

// The bytes go on in the buffer that they came in, or wait for one.
void write_file(fuse_req_t handle, fuse_ino_t /*number*/, fuse_bufvec* bytes, off_t offset,
                fuse_file_info* file) {
  Session& session = Session::of(handle);
  const FileId id{file->fh};
  const fuse_buf& first = bytes->buf[0];
  auto received = session.received().take({static_cast<const std::byte*>(first.mem), first.size});
  session.serve_at_once(
      handle,
      [&session, id, offset, data = std::move(received)](Request& request) mutable -> Task<int> {
        if (data.is_outside()) {
          request.wait_for_room([&data] { data.drop(); });
          Buffer buffer = co_await session.files().take_buffer();
          request.end_waiting();
          // These bytes are forgotten, and are not written.
          if (request.is_answered()) co_return 0;
          data.put_into(std::move(buffer));
        }
        // A program that goes on writing would keep the session from its end.
        if (session.is_draining()) co_return ENOTCONN;
        const std::size_t size = data.size();
        auto done = co_await session.files().write(id, static_cast<std::uint64_t>(offset),
                                                   data.buffer(), data.begin(), size);
        if (!done) co_return done.error();
        request.written(size);
        co_return 0;
      });
}

void flush_file(fuse_req_t handle, fuse_ino_t /*number*/, fuse_file_info* file) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session, id = FileId{file->fh}](Request& request) -> Task<int> {
    auto done = co_await session.files().flush(id);
    co_return answer(request, done);
  });
}

void sync_file(fuse_req_t handle, fuse_ino_t /*number*/, int /*only_data*/, fuse_file_info* file) {
  Session& session = Session::of(handle);
  session.serve(handle, [&session, id = FileId{file->fh}](Request& request) -> Task<int> {
    auto done = co_await session.files().sync(id);
    co_return answer(request, done);
  });
}

void release_file(fuse_req_t handle, fuse_ino_t /*number*/, fuse_file_info* file) {
  Session& session = Session::of(handle);
  // No program waits for this, and it has to be done however long it takes.
  session.tree().turns().begin(session.files().release(FileId{file->fh}));
  ::fuse_reply_err(handle, 0);
}

// --- Directories --------------------------------------------------------------------------------

void open_directory(fuse_req_t handle, fuse_ino_t number, fuse_file_info* file) {
  Session& session = Session::of(handle);
  Hold node = node_of(session, number);
  if (!node) {
    ::fuse_reply_err(handle, ESTALE);
    return;
  }
  const DirectoryId id = session.directories().open(std::move(node));
  file->fh = static_cast<std::uint64_t>(id);
  if (::fuse_reply_open(handle, file) != 0) session.directories().release(id);
}

// Puts names into one reply.
class Listing final : public NameSink {
 public:
  Listing(Session& session, std::size_t size, bool with_nodes)
      : session_(session), room_(size), with_nodes_(with_nodes) {}

  bool has_room_for(const DirectoryReader::Entry& entry) const override {
    return used_ + size_of(entry) <= room_.size();
  }
  bool add(const DirectoryReader::Entry& entry, Entry node) override {
    const auto offset = static_cast<off_t>(entry.cookie);
    const std::size_t left = room_.size() - used_;
    if (with_nodes_) {
      fuse_entry_param shown = session_.entry_for_kernel(node);
      if (!node.node) shown.attr.st_ino = entry.fileid;
      used_ += ::fuse_add_direntry_plus(nullptr, room_.data() + used_, left, entry.name.c_str(),
                                        &shown, offset);
      if (node.node) shown_.emplace_back(std::move(node.node), node.version);
    } else {
      struct stat shown {};
      shown.st_ino = entry.fileid;
      used_ += ::fuse_add_direntry(nullptr, room_.data() + used_, left, entry.name.c_str(), &shown,
                                   offset);
    }
    return true;
  }
  void answer(Request& request) {
    const rpcrdma::Bytes whole = std::as_bytes(std::span(room_)).first(used_);
    if (!request.data(std::span(&whole, 1))) return;
    for (auto& [node, version] : shown_) session_.tree().note_shown(*node, version);
  }

 private:
  std::size_t size_of(const DirectoryReader::Entry& entry) const {
    const char* const name = entry.name.c_str();
    return with_nodes_ ? ::fuse_add_direntry_plus(nullptr, nullptr, 0, name, nullptr, 0)
                       : ::fuse_add_direntry(nullptr, nullptr, 0, name, nullptr, 0);
  }

  Session& session_;
  std::vector<char> room_;
  std::size_t used_ = 0;
  const bool with_nodes_;
  std::vector<std::pair<Hold, std::uint64_t>> shown_;  // nodes, and versions of their attributes
};

void list(fuse_req_t handle, std::size_t size, off_t offset, fuse_file_info* file,
          bool with_nodes) {
  Session& session = Session::of(handle);
  const DirectoryId id{file->fh};
  session.serve(handle, [&session, id, size, offset, with_nodes](Request& request) -> Task<int> {
    Listing listing(session, std::min(size, kTransferMax), with_nodes);
    auto done = co_await session.directories().read(id, static_cast<std::uint64_t>(offset),
                                                    with_nodes, listing, request.who());
    if (!done) co_return done.error();
    listing.answer(request);
    co_return 0;
  });
}

void read_directory(fuse_req_t handle, fuse_ino_t /*number*/, std::size_t size, off_t offset,
                    fuse_file_info* file) {
  list(handle, size, offset, file, false);
}
void read_directory_plus(fuse_req_t handle, fuse_ino_t /*number*/, std::size_t size, off_t offset,
                         fuse_file_info* file) {
  list(handle, size, offset, file, true);
}

void release_directory(fuse_req_t handle, fuse_ino_t /*number*/, fuse_file_info* file) {
  Session::of(handle).directories().release(DirectoryId{file->fh});
  ::fuse_reply_err(handle, 0);
}

void sync_directory(fuse_req_t handle, fuse_ino_t /*number*/, int /*only_data*/,
                    fuse_file_info* /*file*/) {
  ::fuse_reply_err(handle, 0);  // a server keeps names before it answers
}

void set_up(void* session, fuse_conn_info* connection) {
  static_cast<Session*>(session)->set_up(*connection);
}

fuse_lowlevel_ops table() {
  fuse_lowlevel_ops made{};
  made.init = &set_up;
  made.lookup = &look_up;
  made.forget = &forget;
  made.forget_multi = &forget_several;
  made.getattr = &get_attributes;
  made.setattr = &set_attributes;
  made.access = &check_access;
  made.readlink = &read_link;
  made.statfs = &show_space;
  made.mknod = &make_node;
  made.mkdir = &make_directory;
  made.symlink = &make_symbolic_link;
  made.link = &make_link;
  made.unlink = &remove_name;
  made.rmdir = &remove_directory;
  made.rename = &rename_name;
  made.open = &open_file;
  made.create = &create_file;
  made.read = &read_file;
  made.write_buf = &write_file;
  made.flush = &flush_file;
  made.fsync = &sync_file;
  made.release = &release_file;
  made.opendir = &open_directory;
  made.readdir = &read_directory;
  made.readdirplus = &read_directory_plus;
  made.releasedir = &release_directory;
  made.fsyncdir = &sync_directory;
  // Locks are local, as with `nolock`; there are no extended attributes.
  return made;
}

}  // namespace

const fuse_lowlevel_ops& fuse_operations() noexcept {
  static const fuse_lowlevel_ops made = table();
  return made;
}

}  // namespace mounts
