// Takes the work of one connection into its stream, all of a batch or none, and gives its
// completions back. Knows the memory that work may name, and neither socket nor state.
#ifndef RPCRDMA_RDMA_SIWARP_POSTING_H_
#define RPCRDMA_RDMA_SIWARP_POSTING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "iwarp/stream.h"
#include "rdma/siwarp/local_memory.h"
#include "rdma/siwarp/shard.h"

namespace rpcrdma::rdma::siwarp {

class Posting {
 public:
  // All outlive it.
  Posting(Shard& shard, iwarp::Stream& stream, const Capabilities& capabilities);

  LocalMemory& memory() noexcept { return memory_; }
  const LocalMemory& memory() const noexcept { return memory_; }
  iwarp::ReceiveMemory& receives() noexcept { return receives_; }

  // Has long Reads requested in pieces while the turns say so, which outlive it.
  void read_by_turns(TurnSize& turns) noexcept { turns_ = &turns; }
  // Looks again whether they do; before each transmit().
  void split_reads() {
    if (has_long_reads_) {
      has_long_reads_ = stream_.split_reads(turns_->read_piece(posix::Reactor::now()));
    }
  }

  // `is_open`: there is more than Receives and control work. `may_copy`: the socket takes what it
  // is given.
  Expected<void, Error> post(std::span<work::Request> batch, bool is_open, bool may_copy);
  Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                      std::span<const std::uint16_t> numbers);
  void release_receives(std::span<const std::uint16_t> numbers);
  std::size_t poll(std::span<Completion> out);
  // Returns whether there was no room for the latest work, and from now on says no.
  bool take_was_full() noexcept { return std::exchange(was_full_, false); }

 private:
  std::size_t send_copies(std::span<work::Request> batch);
  Expected<void, Error> check(std::span<const work::Request> batch, bool is_open);
  void take(work::Request& request, bool may_copy);

  Shard& shard_;
  iwarp::Stream& stream_;
  const Capabilities& capabilities_;
  LocalMemory memory_;
  PooledReceives receives_;      // with shares_receives
  TurnSize* turns_ = nullptr;    // null: Reads are requested whole
  bool has_long_reads_ = false;  // that are not requested to their end, perhaps
  bool was_full_ = false;        // when something was posted last
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_POSTING_H_
