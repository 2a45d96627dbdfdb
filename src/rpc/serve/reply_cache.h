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
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "oncrpc/message.h"
#include "rpc/serve/refused_calls.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

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
// idempotent is executed at most once, while the server lives and as long as its host has made no
// more such calls since than its share of the bounds holds. Where there is no room left, the host
// that takes most of it loses its oldest reply: none pushes out what another one may need.
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
  // Says without a lock whether a call that is in progress may have ended: then ask begin() again.
  // A peer can make many calls wait for one that takes long, and have others end meanwhile.
  class Watch {
   public:
    Watch() = default;
    explicit Watch(const std::atomic<std::uint32_t>& ends) noexcept : ends_(&ends), seen_(ends) {}
    bool may_have_ended() const noexcept { return *ends_ != seen_; }

   private:
    const std::atomic<std::uint32_t>* ends_ = nullptr;
    std::uint32_t seen_ = 0;
  };
  struct Begun {
    Found found;
    Reply reply{};  // a copy, where it is done: another thread may push it out
    Watch watch{};  // where it is in progress
  };

  ReplyCache(std::size_t entries_max, std::size_t bytes_max) noexcept
      : entries_max_(entries_max), bytes_max_(bytes_max) {}
  // Sets what is called when a call ends that begin() was asked for meanwhile, on the thread where
  // it ends: the duplicate may wait on another one.
  void wake_by(std::function<void()> wake) { wake_ = std::move(wake); }

  Begun begin(const Key& key);
  // End what begin() called kNew. The cache forgets a reply of more than a quarter of all bytes,
  // and drops older ones for others.
  void finish(const Key& key, Reply&& reply);
  void forget(const Key& key);
  // Counts the ends of calls that were said to be in progress. Not those of all calls, since those
  // that wait are looked at again at each.
  std::uint64_t ends() const noexcept { return ends_; }

  // Remember Calls that are not executed again because the peer refused access to their chunks. See
  // RefusedCalls for their names and hosts.
  void note_refused(std::uint64_t call, std::uint64_t host, Instant now) {
    const std::lock_guard lock(mutex_);
    refused_.note(call, host, now);
    refused_until_ = (now + RefusedCalls::kLifetime).time_since_epoch().count();
  }
  bool was_refused(std::uint64_t call, Instant now) const {
    if (now.time_since_epoch().count() > refused_until_) return false;  // the usual case
    const std::lock_guard lock(mutex_);
    return refused_.contains(call, now);
  }

  bool enabled() const noexcept { return entries_max_ > 0; }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  std::size_t finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
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
  // The replies of a host. One that has none is forgotten.
  struct Host {
    std::string name;
    std::deque<Key> order{};  // the oldest first
    std::size_t bytes = 0;
    double share = 0;  // of both bounds, each 1
  };
  struct HasLess {
    bool operator()(const Host* a, const Host* b) const noexcept {
      return a->share != b->share ? a->share < b->share : a->name < b->name;
    }
  };
  static constexpr std::size_t kWatched = 1024;
  static std::size_t size_of(const Reply& reply) noexcept;
  std::atomic<std::uint32_t>& ends_of(const Key& key) noexcept {
    return ends_of_[Hash{}(key) % kWatched];
  }
  void note_end(const Key& key) noexcept {
    ++ends_of(key);
    ++ends_;  // comes last: a thread that sees it looks at the other count
  }
  double share_of(std::size_t replies, std::size_t bytes) const noexcept {
    return static_cast<double>(replies) / static_cast<double>(entries_max_) +
           static_cast<double>(bytes) / static_cast<double>(bytes_max_);
  }
  Host& host_of(const Key& key);
  // Counts what is in host.order and host.bytes, and forgets a host without replies.
  void settle(Host& host);
  void make_room_for(Host& host, std::size_t size);
  void drop_oldest_of(Host& host);

  const std::size_t entries_max_, bytes_max_;
  std::function<void()> wake_;
  std::atomic<std::uint64_t> ends_ = 0;
  std::array<std::atomic<std::uint32_t>, kWatched>
      ends_of_{};  // by the hash of the key; they change under mutex_
  std::atomic<Instant::rep> refused_until_ = Instant::min().time_since_epoch().count();
  mutable std::mutex mutex_;  // of all below
  std::unordered_map<Key, Entry, Hash> entries_;
  std::unordered_map<std::string, Host> hosts_;
  std::set<Host*, HasLess> by_share_;
  std::size_t finished_ = 0, bytes_ = 0;
  RefusedCalls refused_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_REPLY_CACHE_H_
