// Writes to files: the calls that take what programs have written to the server, and new sizes.
//
// A write ends when its bytes are in a buffer here. They go to the server at once, by WRITEs that
// are UNSTABLE, and wait in their node (write_behind.h) until a COMMIT has shown that the server
// keeps them. An error that comes meanwhile is kept there, too, until a flush reports it.
//
// A call that has had no answer in its time fails its bytes, unless the server shows by other
// bytes that it goes on: then the call goes again.
#ifndef RPCRDMA_MOUNT_FILE_WRITES_H_
#define RPCRDMA_MOUNT_FILE_WRITES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "mount/tree.h"
#include "mount/write_line.h"

namespace mounts {

class FileWrites {
 public:
  // Calls `make_room` when buffers run short: the owner gives back those that it can spare, and
  // calls commit_all().
  FileWrites(Tree& tree, std::function<void()> make_room)
      : tree_(tree),
        make_room_(std::move(make_room)),
        line_(tree.server().call_maker().patience()) {}

  // Takes bytes that are in a buffer, which it may keep. Fails with an earlier error of the file
  // that no flush has reported.
  Outcome<void> write(OpenFile& file, std::uint64_t offset, Buffer& buffer, std::size_t begin,
                      std::size_t size);

  // Waits until the server has kept all bytes of the file that were written so far, or has failed
  // to. Those who write on keep nobody waiting.
  Task<void> wait_until_clean(Hold node);
  // The same, and takes the file's first error since the last flush.
  Task<Outcome<void>> flush(Hold node);
  // The same for all files. Errors are counted as lost bytes.
  Task<void> flush_all();
  // Ends the last use of a file. An error that is left counts as lost bytes, too: those of a
  // mapping may come behind the last close, which reports nothing of them.
  void note_last_use(Node& node);
  // Returns whether bytes were lost of which no program knows.
  bool has_lost_bytes() const noexcept { return has_lost_bytes_; }

  // Sets a size, and whatever else there is to set, once the server has all bytes for good. A file
  // that was written meanwhile keeps its bytes: then this fails with ETIMEDOUT.
  Task<Outcome<void>> set_size(Hold node, nfs3::sattr3 attributes, Who who) {
    return set_size(std::move(node), std::move(attributes), who, Others::kWait);
  }
  // Sets the size 0 for an open(2) with O_TRUNC. Bytes that others write meanwhile are held back
  // here, and go to the file that was cut.
  Task<Outcome<void>> cut(Hold node, Who who);

  // Begins a COMMIT of each file that has bytes at the server, so that buffers come back.
  void commit_all();

  // Returns when the server took bytes of any file the last time.
  Time last_taken() const noexcept { return line_.last_taken(); }
  // Returns how many files have bytes that the server may lose.
  std::size_t dirty_count() const noexcept { return dirty_.size(); }

 private:
  // Others who write the file wait at the kernel, or their bytes are held back here.
  enum class Others : std::uint8_t { kWait, kHeldBack };
  Task<Outcome<void>> set_size(Hold node, nfs3::sattr3 attributes, Who who, Others others);

  void begin_writes(Node& node);
  Task<void> write_piece(Hold node, WriteBehind::Piece& piece, nfs3::WRITE3args args,
                         Time deadline);
  Task<void> commit(Hold node);
  bool goes_again(const Node& node, int error, Time called, Time since) const noexcept;
  void settle(Node& node);
  void after_news(Node& node);
  void make_room_if_short();

  Tree& tree_;
  const std::function<void()> make_room_;
  WriteLine line_;
  bool has_lost_bytes_ = false;
  std::map<NodeId, Hold> dirty_;  // nodes with bytes that the server may lose
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_FILE_WRITES_H_
