// Where poll_actions() writes.
#ifndef RPCRDMA_ENGINE_ACTION_ROOM_H_
#define RPCRDMA_ENGINE_ACTION_ROOM_H_

#include <cstddef>
#include <span>

#include "engine/types.h"

namespace rpcrdma::engine {

class ActionRoom {
 public:
  explicit ActionRoom(std::span<Action> room) noexcept : room_(room) {}

  bool full() const noexcept { return used_ == room_.size(); }
  std::size_t used() const noexcept { return used_; }
  // The next action, to be filled in place. Precondition: !full().
  template <class T>
  T& add() {
    return room_[used_++].template emplace<T>();
  }
  void add(const Action& action) { room_[used_++] = action; }

 private:
  std::span<Action> room_;
  std::size_t used_ = 0;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_ACTION_ROOM_H_
