// A tap on a running server: what its connections send and receive, in records that another program
// reads (`rpcrdma explain --pid`). It sees what no capture can: the traffic of RDMA devices.
//
// ServerOptions::tap points to it, and it outlives the server. start() it later, on any thread,
// take() records again and again for as long as somebody looks, and stop() it. While it is off, a
// message costs the test of a flag.
#ifndef RPCRDMA_TAP_H_
#define RPCRDMA_TAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "rpcrdma/export.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

// The head of a record. `kept` bytes follow it, and zeros up to a multiple of eight bytes. All
// numbers are in the byte order of the machine: records are for the same one.
struct TapRecord {
  enum class Kind : std::uint8_t {
    // The connection is mentioned for the first time since start(). Its bytes are the peer's
    // address. `tag` is the largest Send of ours, `address` that of the peer, both in bytes; 0: not
    // known. `size`: 1 for RDMA, 2 for RPC over TCP.
    kConnection,
    kEnd,             // of the connection; its bytes say why, and are empty if it ended in order
    kSend,            // ours; with kInvalidates `tag` is the peer's handle that it invalidates
    kReceived,        // a Send of the peer's; with kInvalidates `tag` is ours
    kRead,            // we asked for `size` bytes at `address` of the peer's handle `tag`
    kReadDone,        // the oldest such Read ended; its bytes are the first that came
    kWrite,           // ours, of `size` bytes to `address` of the peer's handle `tag`
    kRecordReceived,  // RPC over TCP: a message of the peer's
    kRecordSent,      // and one of ours
    kLost,            // the reader was too slow: `size` records are missing here
  };
  static constexpr std::uint8_t kInvalidates = 1, kSeenFromTheStart = 2, kFailed = 4;

  std::uint32_t length = 0;  // of the record with its head and the zeros behind it, bytes
  std::uint32_t kept = 0;    // bytes that follow the head: the first ones of the message
  Kind kind = Kind::kLost;
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint32_t tag = 0;
  std::uint64_t connection = 0;  // numbers count from 1 in a process; 0 in kLost
  std::int64_t time = 0;         // nanoseconds since 1970
  std::uint64_t size = 0;        // of the whole message, bytes
  std::uint64_t address = 0;
};
static_assert(sizeof(TapRecord) == 48);

class RPCRDMA_EXPORT Tap {
 public:
  // The first bytes of a message that a record keeps: its headers, and what stands inline.
  static constexpr std::size_t kKeptMax = 8192;

  // `room`: bytes for records that nobody has taken yet, at least 64 KiB. None is used before
  // start().
  explicit Tap(std::size_t room);
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  // The functions may be called on any thread. There is one reader at a time.
  void start();  // forgets what was not taken
  void stop() noexcept;
  bool is_on() const noexcept { return epoch_.load(std::memory_order_relaxed) % 2 != 0; }
  // Returns whole records, the oldest first, and forgets them; empty: nothing has happened since.
  std::vector<std::byte> take();

  // --- For the library's connections.

  // Changes with each start() and stop(), so that connections introduce themselves to each reader.
  std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }
  std::uint64_t new_connection() noexcept { return ++connections_; }
  // Adds a record: `length`, `kept` and `time` are set here. Bytes beyond kKeptMax are left out. A
  // full room leaves out the whole record, and counts it.
  void add(TapRecord record, std::span<const Bytes> runs) noexcept;

 private:
  const std::size_t room_;
  std::atomic<std::uint64_t> epoch_ = 0, connections_ = 0;
  std::mutex mutex_;
  std::vector<std::byte> records_;  // guarded by mutex_, as what follows
  std::uint64_t lost_ = 0;          // since the last record that found room
};

}  // namespace rpcrdma

#endif  // RPCRDMA_TAP_H_
