// Operations on the bytes of files: close-to-open, read-ahead, and write-behind with COMMIT.
//
// A write ends when its bytes are in a buffer here; they go to the server at once. Errors of the
// server are reported by the next flush or sync of the file.
#ifndef RPCRDMA_MOUNT_FILE_OPERATIONS_H_
#define RPCRDMA_MOUNT_FILE_OPERATIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "mount/tree.h"
#include "mount/write_line.h"

namespace mounts {

class NameOperations;

// Takes the bytes of a read where they lie, at once.
class ReadSink {
 public:
  virtual ~ReadSink() = default;
  virtual void give(std::span<const rpcrdma::Bytes> pieces) = 0;
};

class FileOperations {
 public:
  enum class FileId : std::uint64_t {};

  FileOperations(Tree& tree, NameOperations& names)
      : tree_(tree), names_(names), line_(tree.server().call_maker().patience()) {}

  struct Opened {
    FileId id{};
    bool is_unchanged = false;  // the kernel may keep its pages
  };
  // `flags` as of open(2). Asks the server, so that a file that was closed elsewhere is whole here.
  Task<Outcome<Opened>> open(Hold node, int flags, Who who);
  // The file was just made, by a program that may do with it what it wants.
  Opened open_made(Hold node, Who who);

  // Returns whether the kernel does not know the size of a file that a thread has just opened to
  // append. It is false at the second time, so that a file which others write all the time opens.
  bool has_unknown_end(FileId id, int thread);

  // The calls are in the name of the program that opened the file; `who` has their deadline.
  Task<Outcome<void>> read(FileId id, std::uint64_t offset, std::size_t size, ReadSink& sink,
                           Who who = {});
  // Takes bytes that are in a buffer, which it may keep.
  Task<Outcome<void>> write(FileId id, std::uint64_t offset, Buffer& buffer, std::size_t begin,
                            std::size_t size);
  // Waits until the server has kept all bytes that were written so far, and reports the first error
  // since the last flush: of the node, or by this open file.
  Task<Outcome<void>> flush(Hold node);
  Task<Outcome<void>> flush(FileId id);
  // Ends the last use of an open file.
  Task<void> release(FileId id);

  // Sets a size, and whatever else there is to set, once the server has all bytes for good. A file
  // that was written meanwhile keeps its bytes: then this fails with ETIMEDOUT. kHeldBack: they
  // are not sent meanwhile.
  enum class Others : std::uint8_t { kWait, kHeldBack };
  Task<Outcome<void>> set_size(Hold node, nfs3::sattr3 attributes, Who who,
                               Others others = Others::kWait);

  Task<void> wait_until_written(Hold node);
  Task<void> wait_until_clean(Hold node);
  // Returns a buffer when there is one; others give theirs back for that.
  Task<Buffer> take_buffer();
  // Has buffers given back that nobody needs at the moment.
  void make_room();
  // Ends all uses: flushes all files, and removes names of ours. Returns whether the server has
  // kept everything, but for errors that were reported to a program.
  Task<bool> end_all();
  // Calls this when attributes that the kernel has are void.
  void on_void(std::function<void(NodeId)> report) { report_void_ = std::move(report); }
  void buffer_returned() { returned_.notify(tree_.turns()); }

  std::size_t open_count() const noexcept { return files_.size(); }
  Time last_written() const noexcept { return line_.last_taken(); }  // bytes, by the server
  std::size_t dirty_count() const noexcept { return dirty_.size(); }

 private:
  OpenFile* find(FileId id);
  Task<Outcome<Opened>> open_counted(Hold node, int flags, Who who);
  Task<Outcome<void>> cut(Hold node, Who who);
  Task<void> end_last_use(Hold node);
  FileId add(Hold node, Who who);
  void free_if_unused(FileId id);

  void read_ahead(FileId id, OpenFile& file);
  Task<void> read_block(FileId id, ReadAhead::Block& block);
  struct ReadResult {
    std::size_t count = 0;
    int error = 0;
  };
  Task<ReadResult> read_whole(Hold node, std::uint64_t offset, rpcrdma::MutableBytes into, Who who);
  Task<Outcome<void>> read_alone(Hold node, std::uint64_t offset, std::size_t size, Who who,
                                 ReadSink& sink);
  // Gives what blocks have. Returns errno's value; EAGAIN if some have to be waited for.
  int give_blocks(OpenFile& file, std::uint64_t offset, std::size_t size, ReadSink& sink);

  void begin_writes(Node& node);
  Task<void> write_piece(Hold node, WriteBehind::Piece& piece, nfs3::WRITE3args args,
                         Time deadline);
  Task<void> commit(Hold node);
  bool goes_again(const Node& node, int error, Time called, Time since) const noexcept;
  void after_news(Node& node);
  bool is_short_of_room() const noexcept;

  Tree& tree_;
  NameOperations& names_;
  std::map<FileId, OpenFile> files_;
  std::set<FileId> reading_;  // files that may have blocks
  std::uint64_t last_file_ = 0;
  WriteLine line_;
  bool has_lost_bytes_ = false;   // of which no program knows
  std::map<NodeId, Hold> dirty_;  // nodes with bytes that the server may lose
  Signal returned_;               // a buffer
  std::function<void(NodeId)> report_void_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_FILE_OPERATIONS_H_
