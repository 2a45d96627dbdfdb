// Keeps replies of calls that must not be executed twice: a duplicate request cache.
#ifndef RPCRDMA_RPC_SERVE_REPLY_CACHE_H_
#define RPCRDMA_RPC_SERVE_REPLY_CACHE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/newest.h"
#include "oncrpc/message.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Remembers Calls whose chunks the peer refused to open, for the time when they are made again. RFC
// 8166 §4.5.4: a failed RDMA operation ends the connection, and a requester that makes the same
// Call again would end the next one as well. A Call found here is answered ERR_CHUNK before any of
// its chunks is touched. Only refusals of the peer belong here: a lost link says nothing of a Call.
//
// An entry goes when the reply cache would have dropped the Call's reply, had it been answered
// then, or after kLifetime, since an idempotent workload never turns the cache over.
//
// Part of ReplyCache, under its lock.
class RefusedCalls {
 public:
  static constexpr std::chrono::minutes kLifetime{5};

  // `replies_max`: entries of the reply cache.
  explicit RefusedCalls(std::uint64_t replies_max) noexcept : replies_max_(replies_max) {}

  // `call` names a Call by everything that stays the same when it is made again; 0 is none.
  // `replies`: how many replies the cache has taken so far.
  void note(std::uint64_t call, std::uint64_t replies, Instant now) {
    if (call == 0) return;
    entries_.note({call, replies, now});
  }
  bool contains(std::uint64_t call, std::uint64_t replies, Instant now) const noexcept {
    return entries_.find([&](const Entry& entry) {
      return entry.call == call && now - entry.noted_at <= kLifetime &&
             (replies_max_ == 0 || replies - entry.replies < replies_max_);
    }) != nullptr;
  }

 private:
  struct Entry {
    std::uint64_t call;
    std::uint64_t replies;
    Instant noted_at;
  };
  const std::uint64_t replies_max_;
  Newest<Entry> entries_{64};
};

// Computes a number of bytes that come in pieces: the same however they are cut, so that a request
// is known again when it comes by other chunks, or by none.
class RequestSum {
 public:
  // Spreads the seed, which would be one bit of the first word else.
  explicit RequestSum(std::uint64_t seed) noexcept : state_((seed + 1) * 0x9e3779b97f4a7c15U) {}
  void add(Bytes bytes) noexcept;
  std::uint64_t value() const noexcept;

 private:
  void add_word(const std::byte* bytes) noexcept;

  std::uint64_t state_, size_ = 0;
  std::array<std::byte, sizeof(std::uint64_t)> pending_{};
  std::size_t pending_size_ = 0;
};

// A client whose connection was lost makes its unanswered calls again, with the same XID. A server
// answers from here what it has executed already. The promise: a call of a procedure that is not
// idempotent is executed at most once, while the server lives and as long as no more such calls
// came since than the bounds hold.
//
// May be used from any thread: the shards of a server share it. Only calls that need it take its
// lock.
class ReplyCache {
 public:
  // Names a caller and its request. The port is left out, since a client comes back with another
  // one; two processes of one host differ by their XIDs, credentials and arguments.
  struct Key {
    std::string host;
    Procedure procedure{};
    Xid xid{};
    std::uint64_t credential = 0, arguments = 0;  // checksums
    bool operator==(const Key&) const = default;
  };
  struct Item {
    std::size_t at;  // bytes of the stream before it
    std::vector<std::byte> data;
    bool is_eligible = true;  // as in BulkItem
  };
  struct Reply {
    std::vector<std::byte> stream;  // the results without bulk items
    std::vector<Item> items;
  };
  enum class Found : std::uint8_t {
    kNew,         // it was not here; now it is in progress, until finish() or forget()
    kInProgress,  // ask again later
    kDone,
  };
  struct Begun {
    Found found;
    Reply reply;  // a copy, where it is done: another thread may push it out
  };

  ReplyCache(std::size_t entries_max, std::size_t bytes_max) noexcept
      : entries_max_(entries_max), bytes_max_(bytes_max) {}
  // Sets what is called when a call ends that begin() was asked for meanwhile, on the thread where
  // it ends: the duplicate may wait on another one.
  void wake_by(std::function<void()> wake) { wake_ = std::move(wake); }

  Begun begin(const Key& key);
  // End what begin() called kNew. The cache forgets a reply of more than a quarter of all bytes,
  // and drops the oldest ones for others.
  void finish(const Key& key, Reply&& reply);
  void forget(const Key& key);
  // Counts the calls of finish() and forget(): when it has changed, ask begin() again.
  std::uint64_t ends() const noexcept { return ends_; }

  // Remember Calls that are not executed again because the peer refused access to their chunks. See
  // RefusedCalls for their names.
  void note_refused(std::uint64_t call, Instant now) {
    const std::lock_guard lock(mutex_);
    refused_.note(call, kept_, now);
    any_refused_ = true;
  }
  bool was_refused(std::uint64_t call, Instant now) const {
    if (!any_refused_) return false;  // the usual case
    const std::lock_guard lock(mutex_);
    return refused_.contains(call, kept_, now);
  }

  bool enabled() const noexcept { return entries_max_ > 0; }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  std::size_t finished() const {
    const std::lock_guard lock(mutex_);
    return order_.size();
  }

  // Returns the same number for the same bytes and seed.
  static std::uint64_t checksum(Bytes bytes, std::uint64_t seed) noexcept;

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Entry {
    bool done = false;
    bool is_wanted = false;  // somebody asked before it was done
    Reply reply;
  };
  static std::size_t size_of(const Reply& reply) noexcept;
  void drop_oldest();

  const std::size_t entries_max_, bytes_max_;
  std::function<void()> wake_;
  std::atomic<std::uint64_t> ends_ = 0;
  std::atomic<bool> any_refused_ = false;
  mutable std::mutex mutex_;  // of all below
  std::unordered_map<Key, Entry, Hash> entries_;
  std::deque<Key> order_;  // of those that are done, the oldest first
  std::size_t bytes_ = 0;
  std::uint64_t kept_ = 0;  // replies that were ever kept
  RefusedCalls refused_{entries_max_};
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REPLY_CACHE_H_
