// Gives memory of the pool to the records that clients send over TCP, and lets them wait while
// there is none.
#ifndef RPCRDMA_RPC_SERVE_RECORD_MEMORY_H_
#define RPCRDMA_RPC_SERVE_RECORD_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/serve/host_memory.h"
#include "tcp/connection.h"
#include "tcp/memory.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

// A record takes memory as its bytes come, and keeps it until all are here. So records that have
// begun could hold all memory while none of them has enough, and wait for each other until their
// connections end. Therefore records grow only in a part of the pool, in which their calls keep
// them, and a host leaves some of that to others. The rest has room for the longest record: one
// that may not grow gets all that it may still need, at once, out of the whole pool, and is
// completed. It does not wait for memory any more.
//
// A host completes one record at a time so, until its call gives the memory back: it can keep what
// it likes for as long, and another host completes another one. While the pool has no room for
// that, hosts have turns.
//
// Belongs to one thread, as the pool does.
class RecordMemory {
  struct Host;
  using Hosts = std::map<std::string, Host, std::less<>>;

 public:
  // The memory of one connection's records.
  class Share final : public tcp::Memory {
   public:
    // `of` outlives this, and so does `host_memory` (null: hosts have no bound).
    Share(RecordMemory& of, HostMemory* host_memory, std::string_view peer_address);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Gets news when it waits and there may be memory now. Outlives this.
    void set_listener(tcp::NewsListener& listener) noexcept { listener_ = &listener; }
    // The connection's part in what its host holds, of which records are one part.
    HostMemory::Share& of_host() noexcept { return of_host_; }

    MutableBytes take(std::size_t size, std::size_t whole) override;
    void give_back(MutableBytes buffer) override;
    // The record that begins here is complete: its call gives the memory back.
    void handle_complete(const std::byte* record) noexcept { end_beginning(record); }
    // take() found nothing, and has not been asked again.
    bool waits() const noexcept { return waits_; }
    void stop_waiting() noexcept;

   private:
    friend RecordMemory;
    // The buffer in which a record has begun.
    struct Beginning {
      const std::byte* memory;
      std::size_t size;
      bool is_grown;  // counts in grown_
    };

    bool may_begin(std::size_t buffer_size) const noexcept;
    bool may_grow(std::size_t size) const noexcept;
    bool may_go_on() const noexcept;
    MutableBytes grow(std::size_t size);
    MutableBytes complete(std::size_t whole);
    void end_beginning(const std::byte* memory) noexcept;
    void wait(std::size_t size);

    RecordMemory& of_;
    HostMemory::Share of_host_;
    Hosts::iterator host_;
    std::vector<Beginning> begun_;  // of a record that is not complete; two while it gets another
    bool waits_ = false;
    std::size_t wanted_ = 0;             // bytes, while it waits
    std::list<Share*>::iterator place_;  // the same
    tcp::NewsListener* listener_ = nullptr;
  };

  // `pool_size`: bytes that the pool may have; `record_size_max`: of record_limits() for it.
  RecordMemory(transport::BufferPool& pool, std::size_t pool_size,
               std::size_t record_size_max) noexcept;

  // Looks whether there may be memory now for connections that wait, and gives these turns: looks
  // at kLooksMax of them, and the next time at the next.
  static constexpr std::size_t kLooksMax = 64;
  void retry();

 private:
  // In line are hosts that wait. Those for which a record is being completed are last.
  using Turn = std::pair<bool, std::uint64_t>;
  using Line = std::set<std::pair<Turn, Host*>>;
  struct Host {
    std::size_t shares = 0;
    std::size_t waiting = 0;                // of these
    std::size_t begun = 0;                  // bytes of begun_ that their records have
    const std::byte* completing = nullptr;  // the memory of the record that is being completed
    std::uint64_t came = 0;                 // when it got its place in the line, by turns_

    Turn turn() const noexcept { return {completing != nullptr, came}; }
  };
  void note_tried() noexcept;
  bool is_turn_of(const Host& host) const noexcept;
  void set_completing(Host& host, const std::byte* memory) noexcept;

  transport::BufferPool& pool_;
  // Bytes of small buffers for beginnings, until records are complete; and of what records have
  // besides, until their calls give it back.
  const std::size_t begun_max_, grown_max_;
  std::size_t begun_ = 0, grown_ = 0;
  std::uint64_t turns_ = 0;
  Hosts hosts_;  // that have a connection
  Line line_;
  std::list<Share*> waiting_;
  std::size_t left_to_look_at_ = 0;     // of waiting_, since something changed
  bool has_changed_ = false;            // what records may grow in
  std::uint64_t buffers_returned_ = 0;  // of the pool's, when they were tried last
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_RECORD_MEMORY_H_
