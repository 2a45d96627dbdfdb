#include "engine/rfc5666/padding.h"

#include <algorithm>

#include "engine/shared.h"
#include "engine/stream_parts.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine::rfc5666 {
namespace {

std::uint32_t start_of_stream(const Options& options) noexcept {
  const bool from_buffer = options.rfc5666.padding_base == PaddingBase::kBuffer;
  return from_buffer ? header_sizes(Dialect::kV1).padded : 0;
}

}  // namespace

bool plan_padded_call(const Outgoing& call, const Options& options, const LinkParameters& link,
                      AnswerBy answer_by, CallPlan& plan, PaddedCall& padded) {
  const std::uint32_t alignment = link.padding_alignment;
  if (alignment < 2) return false;
  const auto item =
      std::ranges::find_if(call.stream, [](const Fragment& run) { return run.item != 0; });
  if (item == call.stream.end()) return false;
  const auto first = static_cast<std::size_t>(item - call.stream.begin());
  const ItemExtent extent = item_extent(call.stream, first);
  const std::uint64_t behind = stream_size(call.stream.subspan(extent.end));
  const std::uint64_t head = stream_size(call.stream.first(first));
  // The receiver looks for padding in front of every opaque above the threshold, and only this item
  // has some: no opaque of the head is larger than the head.
  const std::uint64_t threshold = std::max<std::uint64_t>(options.rfc5666.padding_threshold, head);
  // Peers that compare with "at least" and with "more than" agree on this size.
  if (extent.size <= threshold) return false;
  if (behind != xdr::pad_size(extent.size)) return false;
  const std::uint32_t header = header_sizes(link.dialect).padded;
  const std::uint64_t before = head + start_of_stream(options);
  const std::uint64_t pad = (alignment - before % alignment) % alignment;
  if (header + head + pad + extent.size + behind > link.inline_send) return false;
  if (header + pad > HeaderArena::kSizeMax) return false;
  plan.is_long = false;
  plan.segments.clear();
  plan.inline_runs.clear();
  if (!plan_answer(call, options, link, answer_by, plan) || !plan.segments.empty()) return false;
  for (const Fragment& run : call.stream.first(first)) {
    if (!append_run(plan.inline_runs, run)) return false;
  }
  padded = {static_cast<std::uint32_t>(pad), static_cast<std::uint32_t>(plan.inline_runs.size()),
            static_cast<std::uint32_t>(threshold)};
  for (const Fragment& run : call.stream.subspan(first)) {
    if (!plan.inline_runs.push_back(run)) return false;  // not joined with what is before the pad
    plan.inline_runs.back().item = 0;
  }
  plan.header_size = header;
  return !plan.inline_runs.full();  // the pad takes a place in the message's list
}

Padding padding_of(const Received& message, const Options& options) noexcept {
  return {message.alignment, message.threshold, start_of_stream(options)};
}

}  // namespace rpcrdma::engine::rfc5666
