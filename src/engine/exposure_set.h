// The memory that one call advertises to the peer: a handle for each run, from when it is asked for
// until it is dead.
#ifndef RPCRDMA_ENGINE_EXPOSURE_SET_H_
#define RPCRDMA_ENGINE_EXPOSURE_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bounded_vector.h"
#include "engine/types.h"
#include "wire/segment.h"

namespace rpcrdma::engine {

// The caller posts the work and counts what is not complete; the set knows what each handle may
// still be used for.
class ExposureSet {
 public:
  void clear() noexcept { handles_.clear(); }
  std::size_t size() const noexcept { return handles_.size(); }  // runs asked for

  // The next run's handle is asked for. Precondition: fewer than kExposuresMax are.
  void ask() noexcept { handles_.extend() = {SteeringTag{}, 0, State::kAsked}; }
  // The next run is empty: it has no handle.
  void skip() noexcept { handles_.extend() = {SteeringTag{}, 0, State::kDead}; }

  // The answer to the Expose of run `index`; false: there is no handle. `connected`: a handle that
  // comes when the connection has ended is dead already.
  bool take_handle(std::size_t index, const Completion& done, bool connected) noexcept {
    Handle& handle = handles_[index];
    const bool ok = done.status == Status::kOk && done.tag.has_value();
    handle.state = ok && connected ? State::kLive : State::kDead;
    if (!ok) return false;
    handle.tag = *done.tag;
    handle.address = done.address;
    return true;
  }
  // Returns the segment for a chunk list.
  wire::Segment segment(std::size_t index, std::uint32_t length) const noexcept {
    return {handles_[index].tag, length, handles_[index].address};
  }

  bool any_live() const noexcept {
    return std::ranges::any_of(handles_,
                               [](const Handle& each) { return each.state == State::kLive; });
  }
  bool all_dead() const noexcept {
    return std::ranges::all_of(handles_,
                               [](const Handle& each) { return each.state == State::kDead; });
  }

  // Calls revoke(index, tag) for each live handle; false as soon as that has no room for more work.
  template <class Revoke>
  bool revoke_live(Revoke&& revoke) {
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i].state != State::kLive) continue;
      if (!revoke(i, handles_[i].tag)) return false;
      handles_[i].state = State::kRevoking;
    }
    return true;
  }
  void revoked(std::size_t index) noexcept { handles_[index].state = State::kDead; }
  // The peer's Send has invalidated this handle; false: it is none of these, or dead.
  bool invalidated(SteeringTag tag) noexcept {
    for (Handle& handle : handles_) {
      if (handle.tag != tag) continue;
      if (handle.state != State::kLive && handle.state != State::kRevoking) continue;
      if (handle.state == State::kLive) handle.state = State::kDead;
      return true;
    }
    return false;
  }
  // The connection has ended; the provider promises that no handle outlives it.
  void lose() noexcept {
    for (Handle& handle : handles_) {
      if (handle.state == State::kLive) handle.state = State::kDead;
    }
  }

 private:
  enum class State : std::uint8_t { kAsked, kLive, kRevoking, kDead };
  struct Handle {
    SteeringTag tag;
    std::uint64_t address;
    State state;
  };
  BoundedVector<Handle, kExposuresMax> handles_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_EXPOSURE_SET_H_
