// The slots of requests that are under way, in turns by user.
//
// An operation that hangs keeps its slot. So a user gets no more than three times as many as are
// left free: the first one may have three quarters of all, the next one three quarters of the rest,
// and a slot is left for the next user who comes. Users who wait get a slot in turn.
#ifndef RPCRDMA_MOUNT_REQUEST_SLOTS_H_
#define RPCRDMA_MOUNT_REQUEST_SLOTS_H_

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "nfs/client/turns.h"

namespace mounts {

class RequestSlots {
 public:
  RequestSlots(nfs::Turns& turns, std::uint32_t count) : turns_(turns), free_(count) {}
  RequestSlots(const RequestSlots&) = delete;
  RequestSlots& operator=(const RequestSlots&) = delete;

  // `co_await slots.take(uid)`
  auto take(std::uint32_t uid) {
    struct Awaiter {
      RequestSlots& slots;
      User& user;
      bool await_ready() const noexcept {
        return user.waiting.empty() && slots.may_take(user) && slots.grant(user);
      }
      void await_suspend(std::coroutine_handle<> coroutine) { user.waiting.push_back(coroutine); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this, users_[uid]};
  }
  void give_back(std::uint32_t uid) {
    const auto at = users_.find(uid);
    --at->second.used;
    ++free_;
    while (serve_next()) {
    }
    if (at->second.used == 0 && at->second.waiting.empty()) users_.erase(at);
  }
  std::uint32_t free_count() const noexcept { return free_; }

 private:
  struct User {
    std::uint32_t used = 0;
    std::deque<std::coroutine_handle<>> waiting;
  };

  bool may_take(const User& user) const noexcept { return user.used < 3 * free_; }
  bool grant(User& user) noexcept {
    ++user.used;
    --free_;
    return true;
  }
  // Gives a slot to the next user who waits and may have one. Returns whether there was any.
  bool serve_next() {
    auto at = users_.upper_bound(last_served_);
    for (std::size_t i = 0; i < users_.size(); ++i, ++at) {
      if (at == users_.end()) at = users_.begin();
      User& user = at->second;
      if (user.waiting.empty() || !may_take(user)) continue;
      last_served_ = at->first;
      grant(user);
      turns_.resume_later(user.waiting.front());
      user.waiting.pop_front();
      return true;
    }
    return false;
  }

  nfs::Turns& turns_;
  std::uint32_t free_;
  std::map<std::uint32_t, User> users_;  // by uid: those who have slots, or wait for some
  std::uint32_t last_served_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_REQUEST_SLOTS_H_
