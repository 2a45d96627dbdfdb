#include "rpc/call/call_causes.h"

#include <fmt/core.h>

#include <algorithm>

namespace rpcrdma::rpc {

std::string cause_of_refusal(const CallSlot& call) {
  if (call.results_refused) return "place_result() takes up to 8 places, none of them empty";
  std::string refusal = call.writer.refusal();
  return refusal.empty() ? "they exceed the size given to prepare(), or have too many bulk items"
                         : refusal;
}

std::string cause_of_chunk_error(const CallSlot& call, std::uint32_t reads_served_max) {
  std::size_t largest = 0;
  for (const BulkItem& each : call.writer.items()) largest = std::max(largest, each.data.size());
  std::string text = "the server answered ERR_CHUNK";
  if (largest > 0) {
    text += fmt::format(
        "; an argument of {} bytes may be more than it takes (ServerOptions::bulk_size_max, and "
        "the bounds of its .x file)",
        largest);
    if (reads_served_max == 0) {
      text +=
          ", and this side serves no RDMA Reads to bring it (IRD 0, "
          "ProviderOptions::reads_served_max)";
    }
  }
  if (call.result_count > 0) {
    std::size_t smallest = call.results[0].size();
    for (const MutableBytes each : call.places()) smallest = std::min(smallest, each.size());
    text +=
        fmt::format("; a result may be larger than its place, {} bytes (place_result())", smallest);
  }
  text += fmt::format(
      "; the results may be larger than the {} bytes that this call has for them "
      "(Call::expect_results(), CallOptions::results_size_max, 'unbounded <=' in the .x file)",
      call.results_size_max);
  return text;
}

}  // namespace rpcrdma::rpc
