// Taking work: all of a batch or none.
#include <cerrno>
#include <cstdlib>
#include <variant>

#include "rdma/verbs/preflight.h"
#include "rdma/verbs/queue_pair.h"
#include "rdma/verbs/request_check.h"

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

Expected<void, Error> QueuePair::check(std::span<const work::Request> batch) {
  RequestCheck checked(*memory_, capabilities_, state_ == State::kOpen);
  for (const work::Request& request : batch) {
    if (const auto wrong = checked.fault_of(request); !wrong.empty()) {
      return Unexpected<Error>(Error{Errc::kUnsupported, 0, wrong});
    }
  }
  if (!make_room(checked.receives(), batch.size() - checked.receives())) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (!memory_->has_room_for(checked.exposures())) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  return {};
}

// Looks for completions when there seems to be no room: unsignaled work may be done.
bool QueuePair::make_room(std::size_t receives, std::size_t others) {
  const std::size_t depth = capabilities_.queue_depth_max;
  const auto fits = [&] {
    return receives_->posted() + receives <= depth &&
           sends_->size() + sends_->bindings() + others <= depth &&
           ready_.size() + receives_->posted() + receives + sends_->size() + others <=
               ready_.capacity();
  };
  if (fits()) return true;
  if (state_ != State::kOpen) return false;
  // Else binds could wait for the very Sends that wait for their room.
  if (sends_->bindings() > 0) note_posted(sends_->post_bindings(*queues_.queue_pair()));
  collect();
  return fits();
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
  if (!receives_->post_rights(numbers, buffers.size)) note_posted(EIO);
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  receives_->release(numbers);
}

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  if (auto checked = check(batch); !checked) return checked;
  const std::size_t slices = slices_of(batch);
  receives_->begin_batch(slices);
  sends_->begin_batch(slices);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* receive = std::get_if<Receive>(&batch[i].work);
    if (receive ? receives_->add(batch[i].id, *receive) : sends_->add(batch[i])) continue;
    // If memory cannot be registered for the work, it cannot be done at all, now or later.
    const int code = memory_->failure() != 0 ? memory_->failure() : ENOMEM;
    end({Errc::kNoResources, code, kRegisteringMemory});
    for (const work::Request& rest : batch.subspan(i)) {
      ready_.push({.id = rest.id, .status = Status::kFlushed});
    }
    note_news();
    return {};
  }
  note_posted(receives_->post(*queues_.queue_pair()));
  note_posted(sends_->post(*queues_.queue_pair()));
  if (!ready_.empty()) note_news();  // what was done at once
  if (sends_->bindings() > 0) want_visit();
  return {};
}

// Work that the device refused is flushed with the rest.
void QueuePair::note_posted(std::optional<int> failure) {
  if (failure) fail({Errc::kProvider, std::abs(*failure), "posting work to the RDMA device"});
}

}  // namespace rpcrdma::rdma::verbs
