// The security contexts of a server, shared by all its connections, transports and threads, since a
// context belongs to no connection (RFC 2203 §5.2). Clients may disappear without ending theirs.
// Therefore a context is dropped when it expires, and one when there are too many: of the host that
// has most of them, the least recently used one (use_order.h).
#ifndef RPCRDMA_GSS_CONTEXT_TABLE_H_
#define RPCRDMA_GSS_CONTEXT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "gss/sequence_window.h"
#include "gss/step_turns.h"
#include "gss/use_order.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::gss {

// One context and the sequence numbers that it has seen.
struct ServerContext {
  ServerContext(std::unique_ptr<Context> made, std::uint32_t window_size)
      : context(std::move(made)), window(window_size) {}

  std::uint64_t handle = 0;
  std::string begun_by;  // the peer, which alone goes on with it until it is complete
  // Held while the next ones are used, however long that takes. Threads that must not wait use
  // try_lock().
  std::mutex mutex;
  StepTurns turns;  // of steps that the executor runs
  const std::unique_ptr<Context> context;
  SequenceWindow window;
  std::optional<LocalUser> user;  // the caller; set before the context is complete
  bool is_complete = false;       // it takes no more tokens; guarded by the mutex, as the others
};

class ContextTable {
  struct Kept;

 public:
  static constexpr std::size_t kHandleSize = 2 * xdr::kWordSize;  // bytes

  struct Limits {
    std::size_t contexts_max = 16'384;
    std::size_t making_max = 256;  // incomplete ones, whose client has more tokens to send
    std::size_t making_per_host = 64;
    // Contexts of a host that no share of others takes, while it uses them: of complete ones, and a
    // quarter of so many of the others.
    std::size_t few_per_host = 16;
    // The size of the window of sequence numbers, a power of two. Calls of one context overtake
    // each other on several connections, and Long Calls are pulled while later ones are answered.
    // Twice the number of calls that may be under way is enough.
    std::uint32_t window = 4096;
  };

  // Keeps a context alive, even after it has left the table.
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

  // `draw` gives a number that nobody can know beforehand, so that no peer finds the handle of
  // another's context, nor does one from before a restart of the server name any. Both functions
  // may be called on any thread, `draw` by one at a time.
  ContextTable(const Limits& limits, std::function<std::uint64_t()> draw,
               std::function<Instant()> now);
  ~ContextTable();  // precondition: no Use is left
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;

  // The following may be called from any thread.

  // Adds an incomplete context, whose client has more tokens to send. A peer that begins more than
  // Limits::making_per_host loses its oldest one.
  Use add(std::unique_ptr<Context> context, std::string_view peer);
  // The context's lifetime begins now. Without effect if it is out of the table, or complete
  // already.
  void set_complete(const Use& context);
  // Empty: no such context exists, it is not complete, or it has expired.
  Use find(Bytes handle);
  // An incomplete one that this peer has begun; empty: there is none.
  Use find_begun(Bytes handle, std::string_view peer);
  // find() no longer finds it.
  void remove(const Use& context);
  // Removes an incomplete context; does nothing if the context is complete.
  void remove_begun(const Use& context);

  static void encode(std::uint64_t handle, std::span<std::byte, kHandleSize> into) noexcept;
  std::size_t size() const;

 private:
  struct Kept final : UseOrder::Item {
    Kept(std::unique_ptr<Context> made, std::uint32_t window, std::string host)
        : Item(std::move(host)), context(std::move(made), window) {}
    ServerContext context;
    // Guarded by the table's mutex.
    std::size_t uses = 0;
    bool is_complete = false;
    bool is_out = false;  // of the table; destroyed with its last Use
    std::optional<Instant> expires{};
  };

  UseOrder& order_of(const Kept& kept) noexcept { return kept.is_complete ? complete_ : making_; }
  Use use(Kept& kept) noexcept;
  void release(Kept& kept) noexcept;
  // Precondition: mutex_ is held. Returns a context without users, for the caller to destroy after
  // unlocking, which may take a while.
  std::unique_ptr<Kept> take_out(Kept& kept);
  std::unique_ptr<Kept> make_room(UseOrder& order, std::size_t size_max);
  Kept* at(Bytes handle) const;

  const Limits limits_;
  const std::function<std::uint64_t()> draw_;
  const std::function<Instant()> now_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<std::uint64_t, Kept*> by_handle_;
  UseOrder complete_{limits_.few_per_host}, making_{limits_.few_per_host / 4};
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_CONTEXT_TABLE_H_
