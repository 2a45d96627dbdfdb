// Taking work: all of a batch or none.
#include <algorithm>
#include <type_traits>
#include <variant>

#include "rdma/siwarp/queue_pair.h"

namespace rpcrdma::rdma::siwarp {
namespace {

constexpr Error bad(std::string_view what) {
  return {Errc::kUnsupported, 0, what};
}

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

Expected<void, Error> QueuePair::post(std::span<const WorkRequest> batch) {
  if (state_ == State::kDown || stream_.phase() == iwarp::Phase::kTerminating) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  if (auto checked = check(batch); !checked) return checked;
  for (const WorkRequest& request : batch) take(request);
  note_news();
  transmit();
  return {};
}

Expected<void, Error> QueuePair::check(std::span<const WorkRequest> batch) const {
  std::size_t receives = 0;
  std::size_t exposures = 0;
  std::size_t revokes = 0;
  for (const WorkRequest& request : batch) {
    if (const auto error = check(request)) return Unexpected<Error>(*error);
    receives += std::holds_alternative<Receive>(request.work) ? 1U : 0U;
    exposures += std::holds_alternative<Expose>(request.work) ? 1U : 0U;
    revokes += std::holds_alternative<Revoke>(request.work) ? 1U : 0U;
  }
  const iwarp::Stream::Free free = stream_.free();
  if (receives > free.receives || batch.size() - receives - exposures - revokes > free.sends ||
      exposures + revokes > free.controls) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (exposures > free.tags) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  return {};
}

bool QueuePair::check_slices(std::span<const Slice> slices, bool writable) const {
  return slices.size() <= capabilities_.sge_max && total_size(slices) <= kMessageMax &&
         std::ranges::all_of(slices, [&](const Slice& slice) {
           return writable ? regions_.writable(slice).has_value()
                           : regions_.readable(slice).has_value();
         });
}

std::optional<Error> QueuePair::check(const WorkRequest& request) const {
  using Result = std::optional<Error>;
  const bool open = state_ == State::kOpen;
  const Overloaded checks{
      [&](const Receive& work) -> Result {
        if (!check_slices(work.into, true)) return bad("Receive into memory that is not attached");
        return std::nullopt;
      },
      [&](const Send& work) -> Result {
        if (!open) return bad("Send before the connection was there");
        if (!check_slices(work.from, false)) return bad("Send from memory that is not attached");
        return std::nullopt;
      },
      [&](const Read& work) -> Result {
        if (!open) return bad("Read before the connection was there");
        if (work.into.size != work.from.size) return bad("Read whose two sizes differ");
        if (!check_slices({&work.into, 1}, true)) {
          return bad("Read into memory that is not attached");
        }
        return std::nullopt;
      },
      [&](const Write& work) -> Result {
        if (!open) return bad("Write before the connection was there");
        if (!check_slices(work.from, false)) return bad("Write from memory that is not attached");
        if (total_size(work.from) != work.to.size) return bad("Write whose two sizes differ");
        return std::nullopt;
      },
      [&](const Expose& work) -> Result {
        if (!check_slices({&work.memory, 1}, work.access == RemoteAccess::kWrite)) {
          return bad("Expose of memory that is not attached with this right");
        }
        return std::nullopt;
      },
      [&](const Revoke&) -> Result { return std::nullopt; }};
  return std::visit(checks, request.work);
}

std::span<const MutableBytes> QueuePair::writable(std::span<const Slice> slices) {
  for (std::size_t i = 0; i < slices.size(); ++i) writable_[i] = *regions_.writable(slices[i]);
  return std::span(writable_).first(slices.size());
}

std::span<const Bytes> QueuePair::readable(std::span<const Slice> slices) {
  for (std::size_t i = 0; i < slices.size(); ++i) readable_[i] = *regions_.readable(slices[i]);
  return std::span(readable_).first(slices.size());
}

// Precondition: check() has let the whole batch pass, so that the stream takes it.
void QueuePair::take(const WorkRequest& request) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  const Overloaded takes{
      [&](const Receive& work) { return stream_.post_receive(id, writable(work.into), signaled); },
      [&](const Send& work) {
        return stream_.post_send(id, readable(work.from), {work.invalidate, false, signaled});
      },
      [&](const Read& work) {
        return stream_.post_read(id, *regions_.writable(work.into),
                                 {work.from.tag, work.from.address}, signaled);
      },
      [&](const Write& work) {
        return stream_.post_write(id, readable(work.from), {work.to.tag, work.to.address},
                                  signaled);
      },
      [&](const Expose& work) {
        return work.access == RemoteAccess::kRead
                   ? stream_.expose_for_reading(id, *regions_.readable(work.memory), signaled)
                   : stream_.expose_for_writing(id, *regions_.writable(work.memory), signaled);
      },
      [&](const Revoke& work) { return stream_.revoke(id, work.tag, signaled); }};
  RPCRDMA_ASSERT(std::visit(takes, request.work), "work that was checked is not taken");
}

}  // namespace rpcrdma::rdma::siwarp
