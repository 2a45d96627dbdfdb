// Taking work: what is checked when it is posted, before any time passes.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rdma/request_check.h"
#include "rdma/sim/queue_pair.h"

namespace rpcrdma::rdma::sim {
namespace {

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
  RequestCheck check(
      capabilities_, state_ == State::kConnected,
      [this](std::span<const Slice> slices, std::size_t max, bool to_write) {
        return slices.size() <= std::min<std::size_t>(max, capabilities_.sge_max) &&
               (to_write ? domain_.are_writable(slices) : domain_.are_readable(slices));
      });
  for (const work::Request& request : batch) {
    std::string_view fault = check.fault_of(request);
    const auto* revoke = std::get_if<Revoke>(&request.work);
    if (revoke != nullptr && !domain_.was_given_out(revoke->tag)) {
      fault = "Revoke of a tag that was never given out";
    }
    if (fault.empty()) continue;
    world_.violation(fault);
    return Unexpected<Error>(Error{Errc::kUnsupported, 0, fault});
  }
  if (const auto full =
          work_.find_no_room(batch, domain_.exposure_count(), world_.options().exposures_max)) {
    return Unexpected<Error>(*full);
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
  if (!work_.has_room_for_receives(numbers.size())) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  for (const std::uint16_t number : numbers) {
    messages_.give_back(number);
    work_.add(PostedReceive{number, {}, buffers.size});
  }
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  for (const std::uint16_t number : numbers) {
    if (work_.has_receive(number)) world_.violation("release of a Receive that is posted");
    messages_.give_back(number);
  }
}

void QueuePair::take(work::Request& request) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  using Kind = Outgoing::Kind;
  const auto start = [this](Outgoing outgoing) {
    later(&last_departure_, &QueuePair::depart, work_.add(std::move(outgoing)));
  };
  const auto start_local = [this](Local local) {
    later(&last_local_, &QueuePair::run_local, work_.add(std::move(local)));
  };
  const Overloaded takes{
      [&](const Receive& work) {
        for (const Slice& slice : work.into) domain_.poison(slice);
        work_.add(PostedReceive{id, copy_of(work.into), total_size(work.into)});
      },
      [&](const Send& work) {
        request.copied = request.may_copy && work_.skips_next();
        if (!request.copied) {
          return start({id, signaled, Kind::kSend, copy_of(work.from), {}, work.invalidate});
        }
        std::vector<std::byte> data = domain_.gather(work.from);
        ++counters_.sends;
        counters_.payload_sent += data.size();
        counters_.bytes_sent += data.size();
        counters_.bytes_copied += data.size();
        travel(SendMessage{work_.skip(), std::move(data), work.invalidate});
      },
      [&](const Read& work) {
        domain_.poison(work.into);
        start({id, signaled, Kind::kRead, {work.into}, work.from});
      },
      [&](const Write& work) {
        start({id, signaled, Kind::kWrite, copy_of(work.from), work.to});
      },
      [&](const Expose& work) {
        if (work.access == RemoteAccess::kWrite) domain_.poison(work.memory);
        start_local({id, signaled, work});
      },
      [&](const Revoke& work) {
        start_local({id, signaled, work});
      }};
  std::visit(takes, request.work);
}

}  // namespace rpcrdma::rdma::sim
