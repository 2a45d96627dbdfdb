// The security contexts of a server: those of all its connections, transports and threads, since a
// context belongs to no connection (RFC 2203 §5.2). Clients may go without a word, so that contexts
// go by themselves: when their time is over, or when there are too many, the one that was used
// longest ago first.
#ifndef RPCRDMA_GSS_CONTEXT_TABLE_H_
#define RPCRDMA_GSS_CONTEXT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "gss/sequence_window.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {

// One context, and the sequence numbers that were seen of it.
struct ServerContext {
  ServerContext(std::unique_ptr<Context> made, std::uint32_t window_size)
      : context(std::move(made)), window(window_size) {}

  std::uint64_t handle = 0;
  // Held by whoever uses the two below, however long that takes: threads that must not wait only
  // try to.
  std::mutex mutex;
  const std::unique_ptr<Context> context;
  SequenceWindow window;
  std::optional<LocalUser> user;  // that the caller is; set before it is complete
};

class ContextTable {
  struct Kept;

 public:
  static constexpr std::size_t kHandleSize = 2 * xdr::kWordSize;  // bytes

  struct Limits {
    std::size_t contexts_max = 16'384;
    std::size_t making_max = 256;  // of which the client has not sent all that it has to
    // Sequence numbers that are kept apart, a power of two. Calls of one context overtake each
    // other on several connections, and Long Calls are pulled while later ones are answered: twice
    // the calls that may be under way is enough.
    std::uint32_t window = 4096;
  };

  // Keeps a context while it lives, also one that is in the table no more.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)),
          kept_(std::exchange(other.kept_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(kept_, other.kept_);
      return *this;
    }
    ~Use() {
      if (table_ != nullptr) table_->release(*kept_);
    }
    explicit operator bool() const noexcept { return table_ != nullptr; }
    ServerContext& operator*() const noexcept;
    ServerContext* operator->() const noexcept { return &**this; }

   private:
    friend class ContextTable;
    Use(ContextTable& table, Kept& kept) noexcept : table_(&table), kept_(&kept) {}
    ContextTable* table_ = nullptr;
    Kept* kept_ = nullptr;
  };

  // Handles are counted on from `first`, which nobody can know beforehand, so that those of an
  // earlier life of the server are nobody's now. `now` may be called on any thread.
  ContextTable(const Limits& limits, std::uint64_t first, std::function<Instant()> now);
  ~ContextTable();  // nobody uses a context any more
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;

  // All of these from any thread.

  // A context whose client has to send more, until set_complete().
  Use add(std::unique_ptr<Context> context);
  // Its lifetime counts from now on.
  void set_complete(const Use& context);
  // nullopt: it is no handle of this server. Empty: there is no such context, or it has run out.
  Use find(Bytes handle, bool is_complete = true);
  // It is found no more.
  void remove(const Use& context);

  static void encode(std::uint64_t handle, std::span<std::byte, kHandleSize> into) noexcept;
  std::size_t size() const;

 private:
  using Order = std::list<Kept*>;  // the one used last in front
  struct Kept {
    Kept(std::unique_ptr<Context> made, std::uint32_t window) : context(std::move(made), window) {}
    ServerContext context;
    // Guarded by the table's mutex.
    std::size_t uses = 0;
    bool is_complete = false;
    bool is_out = false;  // of the table; goes with its last use
    std::optional<Instant> expires{};
    Order::iterator place{};
  };

  Order& order_of(const Kept& kept) noexcept { return kept.is_complete ? complete_ : making_; }
  Use use(Kept& kept) noexcept;
  void release(Kept& kept) noexcept;
  // With mutex_ held. What nobody uses is to be destroyed behind it, which may take a while.
  std::unique_ptr<Kept> take_out(Kept& kept);
  std::unique_ptr<Kept> make_room(Order& order, std::size_t size_max);

  const Limits limits_;
  const std::function<Instant()> now_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t next_;
  std::unordered_map<std::uint64_t, Kept*> by_handle_;
  Order complete_, making_;
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_CONTEXT_TABLE_H_
