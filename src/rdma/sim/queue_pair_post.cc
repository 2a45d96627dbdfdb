// Taking work: what is checked when it is posted, before any time passes.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rdma/regions.h"
#include "rdma/sim/queue_pair.h"

namespace rpcrdma::rdma::sim {
namespace {

constexpr Error bad(std::string_view what) {
  return {Errc::kUnsupported, 0, what};
}

std::vector<Slice> copy_of(std::span<const Slice> slices) {
  return {slices.begin(), slices.end()};
}

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (state_ == State::kClosing || state_ == State::kClosed) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  for (const work::Request& request : batch) {
    if (const auto error = check(request)) return refuse_post(*error);
  }
  if (const auto error = check_capacity(batch)) {
    was_full_ = true;
    return Unexpected<Error>(*error);
  }
  for (work::Request& request : batch) take(request);
  return {};
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (!capabilities_.shares_receives) return rdma::QueuePair::post_receives(buffers, numbers);
  if (state_ == State::kClosing || state_ == State::kClosed) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  if (receives_.size() + received_unpolled_ + numbers.size() > capabilities_.queue_depth_max) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  for (const std::uint16_t number : numbers) {
    give_back(number);
    receives_.push_back({number, {}, buffers.size});
  }
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  for (const std::uint16_t number : numbers) {
    const bool is_posted = std::ranges::any_of(
        receives_, [number](const PostedReceive& receive) { return receive.id == number; });
    if (is_posted) world_.violation("release of a Receive that is posted");
    give_back(number);
  }
}

void QueuePair::give_back(std::uint64_t number) {
  Kept& message = messages_[number];
  std::ranges::fill(message.data, kPoison);
  if (std::exchange(message.is_held, false)) world_.count_shared_message(-1);
}

Unexpected<Error> QueuePair::refuse_post(const Error& error) {
  world_.violation(error.operation);
  return Unexpected<Error>(error);
}

bool QueuePair::are_readable(std::span<const Slice> slices) const {
  return std::ranges::all_of(
      slices, [this](const Slice& slice) { return domain_.readable(slice).has_value(); });
}

bool QueuePair::are_writable(std::span<const Slice> slices) const {
  return std::ranges::all_of(
      slices, [this](const Slice& slice) { return domain_.writable(slice).has_value(); });
}

std::optional<Error> QueuePair::check(const work::Request& request) const {
  using Result = std::optional<Error>;
  const bool connected = state_ == State::kConnected;
  const Overloaded checks{[&](const Receive& work) -> Result {
                            if (capabilities_.shares_receives)
                              return bad("Receive of its own on a queue pair that shares them");
                            if (work.into.size() > capabilities_.sge_max)
                              return bad("Receive with too many slices");
                            if (!are_writable(work.into))
                              return bad("Receive into memory that is not attached");
                            return std::nullopt;
                          },
                          [&](const Send& work) -> Result {
                            if (!connected) return bad("Send before the connection was there");
                            if (work.from.size() > capabilities_.sge_max)
                              return bad("Send with too many slices");
                            if (!are_readable(work.from))
                              return bad("Send from memory that is not attached");
                            if (work.invalidate && !capabilities_.send_with_invalidate) {
                              return bad("Send with invalidation, which this queue pair cannot do");
                            }
                            return std::nullopt;
                          },
                          [&](const Read& work) -> Result {
                            if (!connected) return bad("Read before the connection was there");
                            if (work.into.size != work.from.size)
                              return bad("Read whose two sizes differ");
                            if (!domain_.writable(work.into))
                              return bad("Read into memory that is not attached");
                            return std::nullopt;
                          },
                          [&](const Write& work) -> Result {
                            if (!connected) return bad("Write before the connection was there");
                            if (work.from.size() > capabilities_.sge_max)
                              return bad("Write with too many slices");
                            if (!are_readable(work.from))
                              return bad("Write from memory that is not attached");
                            if (total_size(work.from) != work.to.size)
                              return bad("Write whose two sizes differ");
                            return std::nullopt;
                          },
                          [&](const Expose& work) -> Result {
                            const bool allowed = work.access == RemoteAccess::kRead
                                                     ? domain_.readable(work.memory).has_value()
                                                     : domain_.writable(work.memory).has_value();
                            if (!allowed)
                              return bad("Expose of memory that is not attached with this right");
                            return std::nullopt;
                          },
                          [&](const Revoke& work) -> Result {
                            if (!tags_.contains(work.tag))
                              return bad("Revoke of a tag that was never given out");
                            return std::nullopt;
                          }};
  return std::visit(checks, request.work);
}

std::optional<Error> QueuePair::check_capacity(std::span<const work::Request> batch) const {
  std::size_t reads = reads_in_flight_;
  std::size_t exposures = domain_.exposure_count();
  for (const auto& [serial, local] : local_) {
    exposures += std::holds_alternative<Expose>(local.work) ? 1U : 0U;
  }
  const std::size_t exposures_before = exposures;
  for (const work::Request& request : batch) {
    reads += std::holds_alternative<Read>(request.work) ? 1U : 0U;
    exposures += std::holds_alternative<Expose>(request.work) ? 1U : 0U;
  }
  // A completion keeps its place in its queue until it was polled.
  std::size_t receives = receives_.size() + received_unpolled_;
  std::size_t others = outgoing_.size() + local_.size() + completions_.size() - received_unpolled_;
  for (const work::Request& request : batch) {
    ++(std::holds_alternative<Receive>(request.work) ? receives : others);
  }
  if (std::max(receives, others) > capabilities_.queue_depth_max) {
    return Error{Errc::kNoResources, 0, "post: the queue is full"};
  }
  if (reads > capabilities_.reads_in_flight_max) {
    return Error{Errc::kNoResources, 0, "post: too many Reads in flight"};
  }
  if (exposures > exposures_before && exposures > world_.options().exposures_max) {
    return Error{Errc::kNoResources, 0, "post: too much memory is exposed"};
  }
  return std::nullopt;
}

void QueuePair::take(work::Request& request) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  using Kind = Outgoing::Kind;
  const Overloaded takes{
      [&](const Receive& work) {
        for (const Slice& slice : work.into) poison(slice);
        receives_.push_back({id, copy_of(work.into), total_size(work.into)});
      },
      [&](const Send& work) {
        // Every other one that may be; it leaves at once, so that nothing may be before it.
        request.copied = request.may_copy && outgoing_.empty() && next_serial_ % 2 == 0;
        if (request.copied) return copy_and_send(work);
        take_outgoing({id, signaled, Kind::kSend, copy_of(work.from), {}, work.invalidate});
      },
      [&](const Read& work) {
        poison(work.into);
        ++reads_in_flight_;
        take_outgoing({id, signaled, Kind::kRead, {work.into}, work.from});
      },
      [&](const Write& work) {
        take_outgoing({id, signaled, Kind::kWrite, copy_of(work.from), work.to});
      },
      [&](const Expose& work) {
        if (work.access == RemoteAccess::kWrite) poison(work.memory);
        take_local({id, signaled, work});
      },
      [&](const Revoke& work) {
        take_local({id, signaled, work});
      }};
  std::visit(takes, request.work);
}

void QueuePair::copy_and_send(const Send& work) {
  std::vector<std::byte> data = gather(work.from);
  ++counters_.sends;
  counters_.payload_sent += data.size();
  counters_.bytes_sent += data.size();
  counters_.bytes_copied += data.size();
  travel(SendMessage{next_serial_++, std::move(data), work.invalidate});
}

void QueuePair::take_outgoing(Outgoing outgoing) {
  const Serial serial = next_serial_++;
  outgoing_.emplace(serial, std::move(outgoing));
  world_.after_in_order(world_.draw_latency(), &last_departure_,
                        [world = &world_, id = id_, serial] {
                          if (QueuePair* self = world->find(id)) self->depart(serial);
                        });
}

void QueuePair::take_local(const Local& local) {
  const Serial serial = next_serial_++;
  local_.emplace(serial, local);
  world_.after_in_order(world_.draw_latency(), &last_local_, [world = &world_, id = id_, serial] {
    if (QueuePair* self = world->find(id)) self->run_local(serial);
  });
}

void QueuePair::poison(const Slice& slice) {
  const MutableBytes memory = domain_.writable(slice).value();
  // By memset: a third of what tests with a sanitizer took was this, byte by byte.
  if (!memory.empty()) std::memset(memory.data(), std::to_integer<int>(kPoison), memory.size());
}

}  // namespace rpcrdma::rdma::sim
