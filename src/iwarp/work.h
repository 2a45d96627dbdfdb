// The work requests of a stream and their results: plain values, and the storage for scattered
// memory behind them.
#ifndef RPCRDMA_IWARP_WORK_H_
#define RPCRDMA_IWARP_WORK_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "iwarp/headers.h"
#include "rpcrdma/steering_tag.h"
#include "rpcrdma/types.h"
#include "rpcrdma/work.h"

namespace rpcrdma::iwarp {

// The longest list of spans in one work request.
inline constexpr std::size_t kSpansMax = work::kSlicesMax;

enum class WorkKind : std::uint8_t { kReceive, kSend, kWrite, kRead, kExpose, kRevoke };
using work::Status;

// `message` stays null: the ReceiveMemory has it.
struct Completion : work::Completion {
  WorkKind kind = WorkKind::kReceive;
};

struct SendOptions {
  std::optional<SteeringTag> invalidate = std::nullopt;  // a tag of the peer's
  bool solicited = false;                                // asks for an event at the peer
  bool signaled = true;                                  // false: no completion when it goes well
};
// A Send that is copied where it is posted.
struct CopiedSend {
  Bytes message;
  SteeringTag invalidate{};  // where `invalidates`
  bool invalidates = false;
};
struct RemoteMemory {
  SteeringTag tag{};
  std::uint64_t address = 0;
};

// The reason why a stream ended.
struct Cause {
  enum class By : std::uint8_t {
    kNobody,      // it has not
    kUs,          // closed by the upper layer
    kOurCheck,    // the peer broke a rule: we sent (or tried to send) a Terminate with `fault`
    kTerminate,   // the peer sent a Terminate with `fault`
    kPeerClosed,  // the peer closed the TCP connection, or it was lost
  };
  By by = By::kNobody;
  Fault fault = Fault::kNone;
  std::string_view text;  // static
};

// Bytes are copied from the staging area to where they belong, and into the arena with the header
// of a small FPDU. The numbers of Sends, Writes and Reads are those that were started.
struct StreamCounters : work::Counters {
  std::uint64_t fpdus_sent = 0, fpdus_received = 0;
};

// Supplies the memory of bare Receives.
class ReceiveMemory {
 public:
  // Returns memory of `size` bytes for a message that begins to come for the Receive: as many as it
  // has, or, when more than one FPDU will bring it, as many as the Receive may take. The caller of
  // the stream takes it back, when the message is read or the stream is gone.
  virtual std::byte* take(std::uint64_t id, std::uint32_t size) = 0;

 protected:
  ~ReceiveMemory() = default;
};

// Scattered memory of one work request. At most two runs are kept inline; longer lists take a block
// of a SpanPool. Zero-length spans are dropped.
template <class Byte>
struct SpanList {
  struct Run {
    Byte* data;
    std::size_t size;
  };
  static constexpr std::size_t kInline = 2;
  static constexpr std::uint32_t kNoBlock = 0xffffffffU;

  std::array<Run, kInline> inline_runs{};
  std::uint32_t block = kNoBlock;
  std::uint32_t count = 0;
  std::uint32_t size = 0;  // bytes in all runs
};

// Blocks for long lists: as many as there were in use at a time, and few, since almost all work
// requests have one or two runs.
template <class Byte>
class SpanPool {
 public:
  using List = SpanList<Byte>;
  using Run = typename List::Run;

  // Precondition: at most kSpansMax spans, less than 4 GiB together.
  void store(std::span<const std::span<Byte>> spans, List& list) {
    list.count = list.size = 0;
    list.block = List::kNoBlock;
    Run* to = list.inline_runs.data();
    if (spans.size() > List::kInline) {
      list.block = take();
      to = blocks_[list.block].get();
    }
    for (const std::span<Byte>& span : spans) {
      if (span.empty()) continue;
      to[list.count++] = {span.data(), span.size()};
      list.size += static_cast<std::uint32_t>(span.size());
    }
  }
  // store() of one span.
  void store_one(std::span<Byte> span, List& list) {
    list.block = List::kNoBlock;
    list.inline_runs[0] = {span.data(), span.size()};
    list.count = span.empty() ? 0 : 1;
    list.size = static_cast<std::uint32_t>(span.size());
  }
  void release(List& list) {
    if (list.block != List::kNoBlock) {
      free_.push_back(list.block);
      list.block = List::kNoBlock;
    }
    list.count = list.size = 0;
  }
  std::span<const Run> view(const List& list) const {
    const Run* from =
        list.block == List::kNoBlock ? list.inline_runs.data() : blocks_[list.block].get();
    return {from, list.count};
  }
  // Calls visit(std::span<Byte>) for each run of `size` bytes from `offset` on, in order, until it
  // returns false. Precondition: offset + size <= list.size.
  template <class Visit>
  void for_each(const List& list, std::size_t offset, std::size_t size, Visit visit) const {
    for (const Run& run : view(list)) {
      if (size == 0) return;
      if (offset >= run.size) {
        offset -= run.size;
        continue;
      }
      const std::size_t part = std::min(run.size - offset, size);
      if (!visit(std::span<Byte>(run.data + offset, part))) return;
      offset = 0;
      size -= part;
    }
    RPCRDMA_ASSERT(size == 0, "a span list is shorter than its work says");
  }

 private:
  std::uint32_t take() {
    if (free_.empty()) {
      blocks_.push_back(std::make_unique_for_overwrite<Run[]>(kSpansMax));
      free_.reserve(blocks_.size());
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    const std::uint32_t block = free_.back();
    free_.pop_back();
    return block;
  }

  std::vector<std::unique_ptr<Run[]>> blocks_;
  std::vector<std::uint32_t> free_;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_WORK_H_
