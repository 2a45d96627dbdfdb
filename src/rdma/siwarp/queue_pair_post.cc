// Taking work: all of a batch or none.
#include <algorithm>
#include <type_traits>
#include <variant>

#include "rdma/siwarp/queue_pair.h"

namespace rpcrdma::rdma::siwarp {
namespace {

std::uint64_t total_size(std::span<const Slice> slices) {
  std::uint64_t size = 0;
  for (const Slice& slice : slices) size += slice.size;
  return size;
}

constexpr std::uint64_t kMessageMax = 0xffffffffU;

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (state_ == State::kDown || stream_.phase() == iwarp::Phase::kTerminating) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  readable_.clear();
  writable_.clear();
  if (auto checked = check(batch); !checked) return checked;
  next_readable_ = next_writable_ = 0;
  for (work::Request& request : batch) take(request);
  note_news();
  transmit();
  return {};
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (state_ == State::kDown || stream_.phase() == iwarp::Phase::kTerminating) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  writable_.clear();
  if (numbers.size() > stream_.free().receives) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  for (const std::uint16_t number : numbers) {
    const Slice slice{buffers.region, buffers.size, number * buffers.stride};
    if (!regions_.find_writable(slice, writable_.emplace_back())) {
      return Unexpected<Error>(
          Error{Errc::kUnsupported, 0, "Receive into memory that is not attached"});
    }
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    stream_.post_plain_receive(numbers[i], writable_[i]);
  }
  return {};
}

Expected<void, Error> QueuePair::check(std::span<const work::Request> batch) {
  std::size_t receives = 0, sends = 0, exposures = 0, revokes = 0;
  std::string_view wrong;
  const Overloaded checks{[&](const Receive& work) {
                            ++receives;
                            wrong = check_receive(work);
                          },
                          [&](const Send& work) {
                            ++sends;
                            wrong = check_send(work);
                          },
                          [&](const Read& work) {
                            ++sends;
                            wrong = check_read(work);
                          },
                          [&](const Write& work) {
                            ++sends;
                            wrong = check_write(work);
                          },
                          [&](const Expose& work) {
                            ++exposures;
                            wrong = check_expose(work);
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

// Looks up memory, which take() then finds in readable_ or writable_.
bool QueuePair::check_readable(std::span<const Slice> slices) {
  if (slices.size() > capabilities_.sge_max) return false;
  std::uint64_t size = 0;
  for (const Slice& slice : slices) {
    if (!regions_.find_readable(slice, readable_.emplace_back())) return false;
    size += slice.size;
  }
  return size <= kMessageMax;
}

bool QueuePair::check_writable(std::span<const Slice> slices) {
  if (slices.size() > capabilities_.sge_max) return false;
  std::uint64_t size = 0;
  for (const Slice& slice : slices) {
    if (!regions_.find_writable(slice, writable_.emplace_back())) return false;
    size += slice.size;
  }
  return size <= kMessageMax;
}

// What is wrong with a request; empty when nothing is.

std::string_view QueuePair::check_receive(const Receive& work) {
  return check_writable(work.into) ? "" : "Receive into memory that is not attached";
}

std::string_view QueuePair::check_send(const Send& work) {
  if (state_ != State::kOpen) return "Send before the connection was there";
  return check_readable(work.from) ? "" : "Send from memory that is not attached";
}

std::string_view QueuePair::check_read(const Read& work) {
  if (state_ != State::kOpen) return "Read before the connection was there";
  if (work.into.size != work.from.size) return "Read whose two sizes differ";
  return check_writable({&work.into, 1}) ? "" : "Read into memory that is not attached";
}

std::string_view QueuePair::check_write(const Write& work) {
  if (state_ != State::kOpen) return "Write before the connection was there";
  if (!check_readable(work.from)) return "Write from memory that is not attached";
  return total_size(work.from) == work.to.size ? "" : "Write whose two sizes differ";
}

std::string_view QueuePair::check_expose(const Expose& work) {
  const std::span<const Slice> memory{&work.memory, 1};
  const bool right =
      work.access == RemoteAccess::kWrite ? check_writable(memory) : check_readable(memory);
  return right ? "" : "Expose of memory that is not attached with this right";
}

std::span<const MutableBytes> QueuePair::writable(std::size_t count) {
  next_writable_ += count;
  return std::span(writable_).subspan(next_writable_ - count, count);
}

std::span<const Bytes> QueuePair::readable(std::size_t count) {
  next_readable_ += count;
  return std::span(readable_).subspan(next_readable_ - count, count);
}

// Precondition: check() has let the whole batch pass, so that the stream takes it.
void QueuePair::take(work::Request& request) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  const Overloaded takes{
      [&](const Receive& work) {
        return stream_.post_receive(id, writable(work.into.size()), signaled);
      },
      [&](const Send& work) {
        const auto from = readable(work.from.size());
        // Only while the socket takes what it is given, so that little can be left at the end.
        request.copied =
            request.may_copy && !writable_wanted_ && stream_.send_now(from, work.invalidate);
        return request.copied || stream_.post_send(id, from, {work.invalidate, false, signaled});
      },
      [&](const Read& work) {
        return stream_.post_read(id, writable(1)[0], {work.from.tag, work.from.address}, signaled);
      },
      [&](const Write& work) {
        return stream_.post_write(id, readable(work.from.size()), {work.to.tag, work.to.address},
                                  signaled);
      },
      [&](const Expose& work) {
        return work.access == RemoteAccess::kRead
                   ? stream_.expose_for_reading(id, readable(1)[0], signaled)
                   : stream_.expose_for_writing(id, writable(1)[0], signaled);
      },
      [&](const Revoke& work) { return stream_.revoke(id, work.tag, signaled); }};
  RPCRDMA_ASSERT(std::visit(takes, request.work), "work that was checked is not taken");
}

}  // namespace rpcrdma::rdma::siwarp
