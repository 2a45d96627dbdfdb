// RDMA_MSGP: opaque data at the end of a Call, aligned where the receiver wants it (RFC 5666 §3.9).
#ifndef RPCRDMA_ENGINE_RFC5666_PADDING_H_
#define RPCRDMA_ENGINE_RFC5666_PADDING_H_

#include <cstdint>

#include "engine/chunk_planner.h"
#include "engine/types.h"

namespace rpcrdma::engine::rfc5666 {

struct PaddedCall {
  std::uint32_t size;  // zeros in front of the plan's inline_runs[before], bytes
  std::uint32_t before;
  std::uint32_t threshold;  // bytes; smaller opaque data is not padded
};

// The layout of a Send whose header and zeros were written next to each other.
struct HeaderPadding {
  std::uint32_t header_size;  // bytes
  std::uint32_t size;         // of the zeros behind the header, bytes
  std::uint32_t before;       // the inline run that they go out in front of
};

// Plans a Call without chunks whose last item is aligned. False: it is not such a Call, or it would
// not fit; the plan then means nothing.
bool plan_padded_call(const Outgoing& call, const Options& options, const LinkParameters& link,
                      AnswerBy answer_by, CallPlan& plan, PaddedCall& padded);

// Returns how to read a message that came as RDMA_MSGP.
Padding padding_of(const Received& message, const Options& options) noexcept;

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_PADDING_H_
