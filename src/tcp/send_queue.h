// The messages on their way to a peer, and the time that it has for taking them.
#ifndef RPCRDMA_TCP_SEND_QUEUE_H_
#define RPCRDMA_TCP_SEND_QUEUE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/bounded_vector.h"
#include "base/deadline.h"
#include "base/drain_watch.h"
#include "base/ring.h"
#include "tcp/record.h"

namespace rpcrdma::tcp {

// Knows bytes and times, and no socket. Messages leave in order.
class SendQueue {
 public:
  // Runs of bytes in one message at most: a reply of kBulkItemsMax items, and what is between them.
  static constexpr std::size_t kRunsMax = 20;

  // At most `messages_max`, each of which may take `timeout` and its bytes at `rate_min`, bytes per
  // second; 0: any time.
  SendQueue(std::size_t messages_max, std::chrono::nanoseconds timeout, std::uint32_t rate_min)
      : messages_(messages_max), watch_(timeout, rate_min) {}

  // The bytes stay as they are until settled() counts the message.
  void push(std::span<const Bytes> runs, std::size_t size) {
    Message& message = messages_.extend();
    message.mark = mark_of(size);
    message.size = kMarkSize + size;
    const bool fits = message.runs.assign(runs);
    RPCRDMA_ASSERT(fits, "a message of more runs than kRunsMax");
    bytes_unsent_ += message.size;
  }
  // Calls add(Bytes) for what is unsent, in order, until it returns false.
  template <class Add>
  void for_each_unsent(Add add) {
    std::size_t skip = first_sent_;
    const auto add_rest = [&](Bytes bytes) {
      const std::size_t skipped = std::min(skip, bytes.size());
      skip -= skipped;
      return bytes.size() == skipped || add(bytes.subspan(skipped));
    };
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Message& message = messages_.at(i);
      if (!add_rest(message.mark)) return;
      for (std::size_t run = 0; run < message.runs.size(); ++run) {
        if (!add_rest(message.runs[run])) return;
      }
    }
  }
  // The socket has taken so many bytes.
  void take(std::size_t size) {
    bytes_unsent_ -= size;
    first_sent_ += size;
    while (!messages_.empty() && first_sent_ >= messages_.front().size) {
      first_sent_ -= messages_.front().size;
      messages_.drop();
      ++settled_;
    }
  }
  // Counts a message that is not sent.
  void settle() noexcept { ++settled_; }
  void clear() {
    settled_ += messages_.size();
    messages_.clear();
    bytes_unsent_ = first_sent_ = 0;
  }

  bool empty() const noexcept { return messages_.empty(); }
  // Messages, of all since the start, whose bytes are not needed any more.
  std::uint64_t settled() const noexcept { return settled_; }
  std::size_t bytes_unsent() const noexcept { return bytes_unsent_; }

  // Watches all that is unsent at a time as if it were one message: each byte that the peer takes
  // is progress, so that it could keep a reply for as long as it likes. Calls now() if there is
  // something to begin or to end.
  template <class Clock>
  void watch(Clock now) {
    if (watched_size_ > 0 && settled_ >= watched_end_) {
      watch_.end(watched_size_, now());
      watched_size_ = 0;
    }
    if (watched_size_ > 0 || messages_.empty()) return;
    watched_size_ = bytes_unsent_;
    watched_end_ = settled_ + messages_.size();
    watch_.begin(watched_size_, now());
  }
  // See DrainWatch.
  Deadline deadline() const noexcept { return watch_.deadline(); }
  bool is_late(Instant now) noexcept { return watch_.is_late(now); }

 private:
  struct Message {
    RecordMark mark;
    BoundedVector<Bytes, kRunsMax> runs;
    std::size_t size;  // bytes, with the mark
  };

  Ring<Message> messages_;
  std::size_t first_sent_ = 0;  // bytes of the first one that have gone
  std::size_t bytes_unsent_ = 0;
  std::uint64_t settled_ = 0;
  DrainWatch watch_;
  std::size_t watched_size_ = 0;   // bytes; 0: nothing is watched
  std::uint64_t watched_end_ = 0;  // settled_, when it has gone
};

}  // namespace rpcrdma::tcp

#endif  // RPCRDMA_TCP_SEND_QUEUE_H_
