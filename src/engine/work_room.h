// The room into which poll_work() writes.
#ifndef RPCRDMA_ENGINE_WORK_ROOM_H_
#define RPCRDMA_ENGINE_WORK_ROOM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "engine/types.h"
#include "rpcrdma/work.h"

namespace rpcrdma::engine {

inline work::Remote to_remote(const wire::Segment& segment) noexcept {
  return {segment.handle, segment.length, segment.offset};
}

// Requests are filled in where they stay: built elsewhere and copied, each costs several
// store-forwarding stalls, which were a tenth of the time of a NULL call.
class WorkRoom {
 public:
  // Takes as many Slices as requests.
  WorkRoom(std::span<work::Request> requests, std::span<Slices> slices) noexcept
      : requests_(requests), slices_(slices) {}

  bool full() const noexcept { return used_ == requests_.size(); }
  std::size_t used() const noexcept { return used_; }

  // The next request, whose work is to be filled in. Precondition of these: !full().
  template <class Work>
  Work& add(WorkId id) {
    work::Request& request = requests_[used_++];
    request.id = static_cast<std::uint64_t>(id);
    request.signaled = true;
    request.may_copy = request.copied = false;
    return request.work.template emplace<Work>();
  }
  // A Send of a header, which is left out where its size is 0, and of the runs behind it.
  // `may_copy`: nothing waits for its completion.
  work::Send& add_send(WorkId id, const work::Slice& header, std::span<const Fragment> runs,
                       bool may_copy) {
    Slices& slices = slices_[used_];
    std::size_t count = 0;
    if (header.size > 0) slices[count++] = header;
    for (const Fragment& run : runs) slices[count++] = {run.memory, run.size, run.offset};
    auto& send = add<work::Send>(id);
    requests_[used_ - 1].may_copy = may_copy;
    send.from = std::span<const work::Slice>(slices).first(count);
    return send;
  }
  // Puts a slice in front of slice `at` of the Send that was added last.
  void insert(std::size_t at, const work::Slice& slice) {
    Slices& slices = slices_[used_ - 1];
    auto& send = std::get<work::Send>(requests_[used_ - 1].work);
    const std::size_t count = send.from.size();
    RPCRDMA_ASSERT(at <= count && count < slices.size(), "a Send of too many slices");
    std::copy_backward(slices.begin() + at, slices.begin() + count, slices.begin() + count + 1);
    slices[at] = slice;
    send.from = std::span<const work::Slice>(slices).first(count + 1);
  }
  // A Write; the Send behind it says when it is done.
  void add_write(WorkId id, const work::Slice& from, const work::Remote& to) {
    Slices& slices = slices_[used_];
    slices[0] = from;
    auto& write = add<work::Write>(id);
    requests_[used_ - 1].signaled = false;
    write.from = std::span<const work::Slice>(slices).first(1);
    write.to = to;
  }

 private:
  std::span<work::Request> requests_;
  std::span<Slices> slices_;
  std::size_t used_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_WORK_ROOM_H_
