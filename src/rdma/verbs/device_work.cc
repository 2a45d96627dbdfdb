#include "rdma/verbs/device_work.h"

#include <algorithm>
#include <variant>

#include "rdma/request_check.h"
#include "rdma/verbs/completion_status.h"

namespace rpcrdma::rdma::verbs {
namespace {

// No more than a batch of these requests names.
std::size_t slices_of(std::span<const work::Request> batch) {
  std::size_t slices = batch.size();  // even of work without any
  for (const work::Request& request : batch) {
    if (const auto* receive = std::get_if<Receive>(&request.work)) slices += receive->into.size();
    if (const auto* send = std::get_if<Send>(&request.work)) slices += send->from.size();
    if (const auto* write = std::get_if<Write>(&request.work)) slices += write->from.size();
  }
  return slices;
}

}  // namespace

DeviceWork::DeviceWork(const DeviceQueues& queues, const Options& options,
                       const Capabilities& given, Counters& counted)
    : capabilities(given),
      counters(counted),
      memory(queues.domain(), queues.device().traits(), options.regions, options.exposures),
      ready(std::size_t{2} * options.queue_depth + SendQueue::kSlack),
      sends(queues.limits(), queues.domain(), queues.device().traits(), memory, ready, counters),
      receives(options.queue_depth, queues.pool(), queues.device().traits(), memory, ready,
               counters) {}

bool DeviceWork::has_room(std::size_t more_receives, std::size_t others) const noexcept {
  const std::size_t depth = capabilities.queue_depth_max;
  return receives.posted() + more_receives <= depth &&
         sends.size() + sends.bindings() + others <= depth &&
         ready.size() + receives.posted() + more_receives + sends.size() + others <=
             ready.capacity();
}

Expected<DeviceWork::Kinds, Error> DeviceWork::check(std::span<const work::Request> batch,
                                                     bool is_open) const {
  RequestCheck checked(
      capabilities, is_open,
      [this](std::span<const Slice> slices, std::size_t slices_max, auto to_write) {
        Bytes readable;
        MutableBytes writable;
        const auto is_inside = [&](const Slice& slice) {
          return to_write ? memory.find_writable(slice, writable)
                          : memory.find_readable(slice, readable);
        };
        return slices.size() <= slices_max && std::ranges::all_of(slices, is_inside) &&
               total_size(slices) <= 0xffffffffU;
      });
  for (const work::Request& request : batch) {
    if (const auto wrong = checked.fault_of(request); !wrong.empty()) {
      return Unexpected<Error>(Error{Errc::kUnsupported, 0, wrong});
    }
  }
  return Kinds{checked.receives, checked.exposures, batch.size() - checked.receives};
}

std::span<const work::Request> DeviceWork::take(std::span<work::Request> batch) {
  const std::size_t slices = slices_of(batch);
  receives.begin_batch(slices);
  sends.begin_batch(slices);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* receive = std::get_if<Receive>(&batch[i].work);
    if (receive ? receives.add(batch[i].id, *receive) : sends.add(batch[i])) continue;
    return batch.subspan(i);
  }
  return {};
}

void DeviceWork::complete(const ibv_wc& completion) {
  if ((completion.wr_id & kOfReceive) != 0) {
    receives.complete(completion.wr_id & ~kOfReceive, completion);
  } else {
    ++counters.completions;
    sends.complete(completion.wr_id, status_of(completion.status));
  }
}

void DeviceWork::flush() {
  sends.flush();
  receives.flush();
  memory.revoke_all();
}

}  // namespace rpcrdma::rdma::verbs
