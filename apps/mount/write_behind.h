// The bytes of one file that programs have written and that the server may still lose.
//
// Each piece is written with UNSTABLE, and kept until a COMMIT has shown the verifier that its
// WRITE had. Another verifier means that the server was restarted in between: what it may have lost
// is written again, in the order in which programs wrote it. A server that loses the
// same bytes again and again has an error. Each file that programs have opened reports an error
// once, so that another program's close does not take it away from the one that wrote.
//
// It makes no calls itself: its owner asks for the next piece to write, and says how that ended.
#ifndef RPCRDMA_MOUNT_WRITE_BEHIND_H_
#define RPCRDMA_MOUNT_WRITE_BEHIND_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "mount/attribute_cache.h"
#include "mount/buffer_pool.h"
#include "nfs3.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace mounts {

// A program that wrote bytes; they go to the server in its name.
struct Writer {
  std::uint32_t uid = 0;
  std::optional<rpcrdma::AuthSys> credential;  // nullopt: the connections' own
  bool operator==(const Writer&) const = default;
};

class WriteBehind {
 public:
  struct Piece {
    enum class State : std::uint8_t { kWaiting, kUnderWay, kWritten };

    std::uint64_t number = 0;  // in the order of the writes
    std::uint64_t offset = 0;
    std::size_t begin = 0, size = 0;  // in the buffer
    std::size_t done = 0;             // bytes that the server has, with this verifier
    nfs3::writeverf3 verifier{};
    Buffer buffer;
    Writer writer;
    Time deadline = Time::max();  // for its WRITE; later ones have the time of a call
    Time first_deadline = Time::max();
    State state = State::kWaiting;
    unsigned losses = 0;         // of the server, which had it and did not keep it
    bool goes_again = false;     // it is under way, and has to be written once more
    bool is_committing = false;  // the COMMIT under way covers it

    // Returns the bytes that the server does not have, which begin at offset + done.
    rpcrdma::Bytes data() const { return buffer.memory().subspan(begin + done, size - done); }
    std::uint64_t end() const { return offset + size; }
  };

  // Adds a piece behind all others. With a server that is gone, all pieces fail at their deadlines,
  // however many WRITEs wait for each other.
  void add(std::uint64_t offset, Buffer buffer, std::size_t begin, std::size_t size,
           Time deadline = Time::max(), Writer writer = {});
  // Adds bytes to the last piece if they follow it and are of the same writer, it has room, and it
  // still waits; else false.
  bool append(std::uint64_t offset, rpcrdma::Bytes data, const Writer& writer = {});
  // Returns who wrote the first bytes that a COMMIT would keep. Precondition: needs_commit().
  const Writer& writer_to_commit() const noexcept;
  // Has pieces that wait written from their beginning: the file is cut in between.
  void write_whole() noexcept;

  // Returns the next piece to write, which is under way then; null: there is none at the time.
  // Pieces that overlap are never under way together.
  Piece* begin_write();
  // The server wrote the first `count` bytes of its data; the rest goes with a further call.
  void end_write(Piece& piece, std::size_t count, bool is_stable, const nfs3::writeverf3& verifier);
  void fail_write(Piece& piece, int error);
  // It had no answer, and goes once more.
  void repeat_write(Piece& piece, Time deadline) noexcept;

  // Returns whether bytes are at the server that a COMMIT would keep.
  bool needs_commit() const noexcept;
  void begin_commit() noexcept;
  void end_commit(const nfs3::writeverf3& verifier);
  void fail_commit(int error);
  // It had no answer: what it covers needs another one.
  void give_up_commit() noexcept;

  // Nothing is waiting or under way: the server has all bytes.
  bool is_written() const noexcept { return unwritten_ == 0; }
  // The server can lose nothing any more.
  bool is_clean() const noexcept { return pieces_.empty(); }
  // The same of the pieces up to one. Programs that go on writing keep nobody waiting by that.
  std::uint64_t last() const noexcept { return last_; }
  std::uint64_t additions() const noexcept { return additions_; }  // also to the last piece
  bool is_written_to(std::uint64_t number) const noexcept;
  bool is_clean_to(std::uint64_t number) const noexcept {
    return pieces_.empty() || pieces_.front().number > number;
  }
  bool is_committing() const noexcept { return is_committing_; }
  std::size_t under_way() const noexcept { return under_way_; }
  std::uint64_t written_twice() const noexcept { return written_twice_; }  // bytes

  // Returns the first error since the last call, errno's value; 0: there was none.
  int take_error() noexcept;
  int error() const noexcept { return error_; }
  // The same for one of several that report errors: `seen` says how many it has reported.
  int take_error(std::uint64_t& seen) noexcept;
  // Returns how many have been reported.
  std::uint64_t reported() const noexcept { return errors_ - (error_ != 0 ? 1 : 0); }

 private:
  void write_again(Piece& piece);
  void drop(Piece& piece);
  bool is_above_others(const Piece& piece) const noexcept;
  void note_error(int error) noexcept;

  std::list<Piece> pieces_;  // as programs wrote them
  std::uint64_t last_ = 0, additions_ = 0;
  std::size_t unwritten_ = 0, under_way_ = 0;
  bool is_committing_ = false;
  int error_ = 0, last_error_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t written_twice_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_WRITE_BEHIND_H_
