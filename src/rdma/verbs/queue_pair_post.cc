// Taking work: all of a batch or none.
#include <cerrno>
#include <cstdlib>

#include "rdma/verbs/preflight.h"
#include "rdma/verbs/queue_pair.h"

namespace rpcrdma::rdma::verbs {

// Looks for completions when there seems to be no room: unsignaled work may be done.
bool QueuePair::make_room(std::size_t receives, std::size_t others) {
  if (work_->has_room(receives, others)) return true;
  if (state_ != State::kOpen) return false;
  // Else binds could wait for the very Sends that wait for their room.
  if (work_->sends.bindings() > 0) note_posted(work_->sends.post_bindings(*queues_.queue_pair()));
  collect();
  return work_->has_room(receives, others);
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (!capabilities_.shares_receives) return rdma::QueuePair::post_receives(buffers, numbers);
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  if (buffers.size > queues_.pool()->buffer_size()) {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, 0, "Receives longer than those that are shared"});
  }
  if (!make_room(numbers.size(), 0)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (!work_->receives.post_rights(numbers, buffers.size)) note_posted(EIO);
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  work_->receives.release(numbers);
}

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  const auto kinds = work_->check(batch, state_ == State::kOpen);
  if (!kinds) return Unexpected<Error>(kinds.error());
  if (!make_room(kinds->receives, kinds->others)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (!work_->memory.has_room_for(kinds->exposures)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  if (const auto rest = work_->take(batch); !rest.empty()) {
    const int code = work_->memory.failure() != 0 ? work_->memory.failure() : ENOMEM;
    end({Errc::kNoResources, code, kRegisteringMemory});
    for (const work::Request& each : rest) {
      work_->ready.push({.id = each.id, .status = Status::kFlushed});
    }
    news.report();
    return {};
  }
  note_posted(work_->receives.post(*queues_.queue_pair()));
  note_posted(work_->sends.post(*queues_.queue_pair()));
  if (!work_->ready.empty()) news.report();  // what was done at once
  if (work_->sends.bindings() > 0) visit.add();
  return {};
}

// Work that the device refused is flushed with the rest.
void QueuePair::note_posted(std::optional<int> failure) {
  if (failure) fail({Errc::kProvider, std::abs(*failure), "posting work to the RDMA device"});
}

}  // namespace rpcrdma::rdma::verbs
