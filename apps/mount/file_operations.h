// Operations on open files: close-to-open, reading with read-ahead, and the room that reads and
// writes share. How written bytes get to the server is in file_writes.h.
#ifndef RPCRDMA_MOUNT_FILE_OPERATIONS_H_
#define RPCRDMA_MOUNT_FILE_OPERATIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "mount/file_writes.h"
#include "mount/tree.h"

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
      : tree_(tree), names_(names), writes_(tree, [this] { make_room(); }) {}
  FileOperations(const FileOperations&) = delete;
  FileOperations& operator=(const FileOperations&) = delete;

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
  // since the last time, by this open file.
  Task<Outcome<void>> sync(FileId id);
  // The same for close(2), if the file may have been written by it.
  Task<Outcome<void>> flush(FileId id);
  // Sets a size for ftruncate(2), which asks for the descriptor's right alone: in the name of the
  // program that opened the file.
  Task<Outcome<void>> set_size(FileId id, nfs3::sattr3 attributes, Who who);
  // Ends the last use of an open file.
  Task<void> release(FileId id);

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

  FileWrites& writes() noexcept { return writes_; }
  const FileWrites& writes() const noexcept { return writes_; }
  std::size_t open_count() const noexcept { return files_.size(); }

 private:
  OpenFile* find(FileId id);
  Task<Outcome<Opened>> open_counted(Hold node, int flags, Who who);
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
  // Gives what blocks have. kMissing: not all bytes are in one, so that they are read alone.
  enum class Given : std::uint8_t { kAll, kWait, kMissing, kFailed };
  Given give_blocks(OpenFile& file, std::uint64_t offset, std::size_t size, ReadSink& sink,
                    int& error);

  Tree& tree_;
  NameOperations& names_;
  std::map<FileId, OpenFile> files_;
  std::set<FileId> reading_;  // files that may have blocks
  std::uint64_t last_file_ = 0;
  FileWrites writes_;
  Signal returned_;  // a buffer
  std::function<void(NodeId)> report_void_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_FILE_OPERATIONS_H_
