// What comes back over a stream: records put together (RFC 5531 §11) and replies opened (§9). No
// I/O; every byte is a peer's.
#ifndef RPCRDMA_STREAM_RECORD_H_
#define RPCRDMA_STREAM_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::stream {

// The header of a fragment: its size, and this bit when it is the record's last.
inline constexpr std::uint32_t kLastFragment = 0x80000000U;

// Puts one record together out of its fragments. It grows as bytes come, not as a peer says.
class RecordReader {
 public:
  explicit RecordReader(std::uint32_t size_max) noexcept : size_max_(size_max) {}

  // How many bytes to read next, at most: none of them is behind the record. 0: done or failed.
  std::size_t wanted() const noexcept;
  // Takes at most wanted() bytes.
  void take(Bytes bytes);

  bool done() const noexcept { return state_ == State::kDone; }
  // Why the stream is of no use any more; empty while it is.
  std::string_view failure() const noexcept { return failure_; }
  // When done: the record without its headers.
  Bytes record() const noexcept { return record_; }

 private:
  enum class State : std::uint8_t { kHeader, kFragment, kDone, kFailed };

  void begin_fragment();

  std::uint32_t size_max_;
  State state_ = State::kHeader;
  std::uint32_t header_ = 0;     // as far as it is there
  std::size_t header_size_ = 0;  // bytes of it that are
  std::uint32_t fragment_left_ = 0;
  bool last_ = false;
  std::string_view failure_;
  std::vector<std::byte> record_;
};

// Why a reply has no results. The connection is good for further calls, unless this is kBadReply.
struct ReplyFailure {
  Errc code;
  std::string cause;
};

// The results of an accepted and successful reply to the call `xid`: a view into `record`.
Expected<Bytes, ReplyFailure> open_reply(Bytes record, std::uint32_t xid);

}  // namespace rpcrdma::stream

#endif  // RPCRDMA_STREAM_RECORD_H_
