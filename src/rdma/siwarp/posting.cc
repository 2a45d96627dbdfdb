#include "rdma/siwarp/posting.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "rdma/request_check.h"

namespace rpcrdma::rdma::siwarp {

Posting::Posting(Shard& shard, iwarp::Stream& stream, const Capabilities& capabilities)
    : shard_(shard),
      stream_(stream),
      capabilities_(capabilities),
      memory_(shard.options.regions, capabilities.sge_max),
      receives_(shard.receives) {}

Expected<void, Error> Posting::post(std::span<work::Request> batch, bool is_open, bool may_copy) {
  // The rest of these is right as well, and there is room for it.
  const auto rest = may_copy ? batch.subspan(send_copies(batch)) : batch;
  if (rest.empty()) return {};
  memory_.begin_batch();
  if (auto checked = check(rest, is_open); !checked) {
    was_full_ = checked.error().code == Errc::kNoResources;
    return checked;
  }
  for (work::Request& request : rest) take(request, may_copy);
  return {};
}

// Posts the most common batch in one step: Sends of one slice that may be copied. Returns how many
// of them are done, from the first on; 0 if the batch has other work.
std::size_t Posting::send_copies(std::span<work::Request> batch) {
  auto& copies = shard_.copies;
  if (batch.size() > copies.size() || batch.size() > stream_.free().sends) return 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* const send = std::get_if<Send>(&batch[i].work);
    if (send == nullptr || !batch[i].may_copy || send->from.size() != 1 ||
        !memory_.find_readable(send->from[0], copies[i].message)) {
      return 0;
    }
    copies[i].invalidates = send->invalidate.has_value();
    copies[i].invalidate = send->invalidate.value_or(SteeringTag{});
  }
  const std::size_t done = stream_.send_now(std::span(copies).first(batch.size()));
  for (work::Request& request : batch.first(done)) request.copied = true;
  return done;
}

Expected<void, Error> Posting::post_receives(const ReceiveBuffers& buffers,
                                             std::span<const std::uint16_t> numbers) {
  memory_.begin_batch();
  if (numbers.size() > stream_.free().receives) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (capabilities_.shares_receives) {
    for (const std::uint16_t number : numbers) {
      receives_.posted(number);
      stream_.post_bare_receive(number, buffers.size);
    }
    return {};
  }
  for (const std::uint16_t number : numbers) {
    const Slice slice{buffers.region, buffers.size, number * buffers.stride};
    if (!memory_.look_up_writable(slice)) {
      return Unexpected<Error>(
          Error{Errc::kUnsupported, 0, "Receive into memory that is not attached"});
    }
  }
  const std::span<const MutableBytes> into = memory_.take_writable(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) stream_.post_plain_receive(numbers[i], into[i]);
  return {};
}

void Posting::release_receives(std::span<const std::uint16_t> numbers) {
  for (const std::uint16_t number : numbers) receives_.released(number);
}

Expected<void, Error> Posting::check(std::span<const work::Request> batch, bool is_open) {
  RequestCheck checked(capabilities_, is_open,
                       [this](std::span<const Slice> slices, std::size_t /*max*/, auto to_write) {
                         return to_write ? memory_.look_up_writable(slices)
                                         : memory_.look_up_readable(slices);
                       });
  for (const work::Request& request : batch) {
    if (const std::string_view wrong = checked.fault_of(request); !wrong.empty()) {
      return Unexpected<Error>(Error{Errc::kUnsupported, 0, wrong});
    }
  }
  const iwarp::Stream::Free free = stream_.free();
  if (checked.receives > free.receives || checked.sends > free.sends ||
      checked.exposures + checked.revokes > free.controls) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (checked.exposures > free.tags) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  return {};
}

// Precondition: check() has let the whole batch pass, so that the stream takes it.
void Posting::take(work::Request& request, bool may_copy) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  const Overloaded takes{
      [&](const Receive& work) {
        return stream_.post_receive(id, memory_.take_writable(work.into.size()), signaled);
      },
      [&](const Send& work) {
        const auto from = memory_.take_readable(work.from.size());
        request.copied = request.may_copy && may_copy && stream_.send_now(from, work.invalidate);
        return request.copied || stream_.post_send(id, from, {work.invalidate, false, signaled});
      },
      [&](const Read& work) {
        has_long_reads_ =
            has_long_reads_ || (turns_ != nullptr && work.into.size > TurnSize::kShort);
        return stream_.post_read(id, memory_.take_writable(1)[0],
                                 {work.from.tag, work.from.address}, signaled);
      },
      [&](const Write& work) {
        return stream_.post_write(id, memory_.take_readable(work.from.size()),
                                  {work.to.tag, work.to.address}, signaled);
      },
      [&](const Expose& work) {
        return work.access == RemoteAccess::kRead
                   ? stream_.expose_for_reading(id, memory_.take_readable(1)[0], signaled)
                   : stream_.expose_for_writing(id, memory_.take_writable(1)[0], signaled);
      },
      [&](const Revoke& work) { return stream_.revoke(id, work.tag, signaled); }};
  RPCRDMA_ASSERT(std::visit(takes, request.work), "work that was checked is not taken");
}

std::size_t Posting::poll(std::span<Completion> out) {
  std::size_t count = 0;
  for (; count < out.size(); ++count) {
    const iwarp::Completion* done = stream_.completion();
    if (done == nullptr) break;
    Completion& told = out[count];
    told.id = done->id;
    told.status = done->status;
    told.size = done->size;
    told.tag = done->tag;
    told.address = done->address;
    told.message = done->kind == iwarp::WorkKind::kReceive ? receives_.message(done->id) : nullptr;
    stream_.drop_completion();
  }
  return count;
}

}  // namespace rpcrdma::rdma::siwarp
