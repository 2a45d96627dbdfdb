// Decides which RDMA Read Requests go out, and when. Internal to the module.
#ifndef RPCRDMA_IWARP_READ_REQUESTS_H_
#define RPCRDMA_IWARP_READ_REQUESTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/assert.h"
#include "iwarp/stream_state.h"

namespace rpcrdma::iwarp {

// A Read is requested whole when its turn comes, as long as the peer serves one more at a time. If
// Reads are to be split (StreamState::read_piece), a long one is requested in pieces, two at a
// time: the peer always has one to answer, and never more than that to send before others have a
// turn.
class ReadRequests {
 public:
  explicit ReadRequests(StreamState& state) noexcept : state_(state) {}

  // Returns whether the Read may start now; it holds up the work behind it until then.
  bool may_start(const SendWork& work) const noexcept {
    return state_.negotiated.ord == 0 || is_split(work) || has_room();
  }
  // Starts it. nullopt: nothing of it is requested yet, or it has failed.
  std::optional<ReadRequest> start(SendWork& work) {
    work.in_flight = true;
    if (state_.negotiated.ord == 0) {
      // The peer serves no Reads at all. The entry stays, as if it had been sent.
      state_.complete(WorkKind::kRead, work.id, Status::kLocalError, true);
      return std::nullopt;
    }
    SplitRead read{work.id, work.signaled, work.tag, work.address, work.sink};
    if (!is_split(work)) return request(read, read.sink.size());
    state_.split_reads.push(read);
    return std::nullopt;
  }

  // Returns whether a piece is to be requested now.
  bool may_go_on() const noexcept {
    const std::uint64_t piece = state_.read_piece;
    return !state_.split_reads.empty() && has_room() &&
           (piece == 0 || state_.read_in_flight == 0 || state_.read_in_flight + piece <= 2 * piece);
  }
  // Precondition: may_go_on().
  ReadRequest go_on() {
    SplitRead& read = state_.split_reads.front();
    const std::size_t left = read.sink.size() - read.requested;
    const std::size_t piece = state_.read_piece;
    const ReadRequest made = request(read, piece == 0 ? left : std::min(left, piece));
    if (read.requested == read.sink.size()) state_.split_reads.drop();
    return made;
  }

 private:
  bool has_room() const noexcept { return state_.reads.size() < state_.negotiated.ord; }
  // A Read behind one that is split waits with it, so that Reads complete in their order.
  bool is_split(const SendWork& work) const noexcept {
    const std::size_t piece = state_.read_piece;
    return !state_.split_reads.empty() || (piece > 0 && work.sink.size() > 2 * piece);
  }
  ReadRequest request(SplitRead& read, std::size_t size) {
    if (read.requested == 0) {
      const Exposure* sink = state_.tags.add_target(read.sink, Right::kSink);
      RPCRDMA_ASSERT(sink != nullptr, "a sink for each Read is reserved");
      read.sink_tag = sink->tag;
      read.sink_base = sink->base;
      ++state_.counters.reads;
    }
    const std::uint32_t at = read.requested;
    read.requested += static_cast<std::uint32_t>(size);
    const bool is_last = read.requested == read.sink.size();
    state_.reads.push({read.id, read.signaled, false, is_last, read.sink_tag, read.sink_base + at,
                       read.sink.subspan(at, size), 0});
    state_.read_in_flight += size;
    return {read.sink_tag, read.sink_base + at, static_cast<std::uint32_t>(size), read.tag,
            read.address + at};
  }

  StreamState& state_;
};

}  // namespace rpcrdma::iwarp

#endif  // RPCRDMA_IWARP_READ_REQUESTS_H_
