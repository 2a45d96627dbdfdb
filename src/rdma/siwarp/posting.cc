// Taking work: all of a batch or none.
#include <algorithm>
#include <type_traits>
#include <variant>

#include "rdma/regions.h"
#include "rdma/siwarp/queue_pair.h"

namespace rpcrdma::rdma::siwarp {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// Return why a request cannot be posted; empty if it can. They look up the memory of the request,
// in its order.

std::string_view fault_of(const Receive& work, LocalMemory& memory) {
  return memory.look_up_writable(work.into) ? "" : "Receive into memory that is not attached";
}

std::string_view fault_of(const Send& work, LocalMemory& memory, bool is_open) {
  if (!is_open) return "Send before the connection was there";
  return memory.look_up_readable(work.from) ? "" : "Send from memory that is not attached";
}

std::string_view fault_of(const Read& work, LocalMemory& memory, bool is_open) {
  if (!is_open) return "Read before the connection was there";
  if (work.into.size != work.from.size) return "Read whose two sizes differ";
  return memory.look_up_writable({&work.into, 1}) ? "" : "Read into memory that is not attached";
}

std::string_view fault_of(const Write& work, LocalMemory& memory, bool is_open) {
  if (!is_open) return "Write before the connection was there";
  if (!memory.look_up_readable(work.from)) return "Write from memory that is not attached";
  return total_size(work.from) == work.to.size ? "" : "Write whose two sizes differ";
}

std::string_view fault_of(const Expose& work, LocalMemory& memory) {
  const std::span<const Slice> slices{&work.memory, 1};
  const bool right = work.access == RemoteAccess::kWrite ? memory.look_up_writable(slices)
                                                         : memory.look_up_readable(slices);
  return right ? "" : "Expose of memory that is not attached with this right";
}

}  // namespace

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (state_ == State::kDown || stream_.phase() == iwarp::Phase::kTerminating) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  // The rest of these is right as well, and there is room for it.
  const auto rest = batch.subspan(send_copies(batch));
  if (!rest.empty()) {
    memory_.begin_batch();
    if (auto checked = check(rest); !checked) {
      was_full_ = checked.error().code == Errc::kNoResources;
      return checked;
    }
    for (work::Request& request : rest) take(request);
  }
  transmit();
  note_completions();
  return {};
}

// Posts the most common batch in one step: Sends of one slice that may be copied. Returns how many
// of them are done, from the first on; 0 if the batch has other work.
std::size_t QueuePair::send_copies(std::span<work::Request> batch) {
  auto& copies = shard_.copies;
  if (!may_copy() || batch.size() > copies.size() || batch.size() > stream_.free().sends) return 0;
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

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (state_ == State::kDown || stream_.phase() == iwarp::Phase::kTerminating) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  memory_.begin_batch();
  if (numbers.size() > stream_.free().receives) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (capabilities_.shares_receives) {
    for (const std::uint16_t number : numbers) {
      receives_.posted(number, buffers.size);
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

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  for (const std::uint16_t number : numbers) receives_.released(number);
}

Expected<void, Error> QueuePair::check(std::span<const work::Request> batch) {
  std::size_t receives = 0, sends = 0, exposures = 0, revokes = 0;
  const bool is_open = state_ == State::kOpen;
  std::string_view wrong;
  const Overloaded checks{[&](const Receive& work) {
                            ++receives;
                            wrong = capabilities_.shares_receives ? "Receive into memory of its own"
                                                                  : fault_of(work, memory_);
                          },
                          [&](const Send& work) {
                            ++sends;
                            wrong = fault_of(work, memory_, is_open);
                          },
                          [&](const Read& work) {
                            ++sends;
                            wrong = fault_of(work, memory_, is_open);
                          },
                          [&](const Write& work) {
                            ++sends;
                            wrong = fault_of(work, memory_, is_open);
                          },
                          [&](const Expose& work) {
                            ++exposures;
                            wrong = fault_of(work, memory_);
                          },
                          [&](const Revoke&) { ++revokes; }};
  for (const work::Request& request : batch) {
    std::visit(checks, request.work);
    if (!wrong.empty()) return Unexpected<Error>(Error{Errc::kUnsupported, 0, wrong});
  }
  const iwarp::Stream::Free free = stream_.free();
  if (receives > free.receives || sends > free.sends || exposures + revokes > free.controls) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (exposures > free.tags) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  return {};
}

// Precondition: check() has let the whole batch pass, so that the stream takes it.
void QueuePair::take(work::Request& request) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  const Overloaded takes{
      [&](const Receive& work) {
        return stream_.post_receive(id, memory_.take_writable(work.into.size()), signaled);
      },
      [&](const Send& work) {
        const auto from = memory_.take_readable(work.from.size());
        request.copied = request.may_copy && may_copy() && stream_.send_now(from, work.invalidate);
        return request.copied || stream_.post_send(id, from, {work.invalidate, false, signaled});
      },
      [&](const Read& work) {
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

}  // namespace rpcrdma::rdma::siwarp
