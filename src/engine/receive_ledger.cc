#include "engine/receive_ledger.h"

#include <algorithm>

namespace rpcrdma::engine {

ReceiveLedger::ReceiveLedger(std::size_t count, std::uint32_t granted_max, std::uint32_t granted,
                             std::uint32_t reserve)
    : to_post_(count),
      withheld_(granted_max),
      for_calls_(granted),
      count_(count),
      reserve_left_(reserve),
      granted_(granted),
      possible_(granted) {
  const std::size_t withheld = granted_max - granted;
  for (std::size_t i = 0; i < count - reserve; ++i) {
    (i < withheld ? withheld_ : to_post_).push(ReceiveId{static_cast<std::uint16_t>(i)});
  }
}

void ReceiveLedger::post_reserve() {
  for (; reserve_left_ > 0; --reserve_left_, ++reserved_) {
    to_post_.push(ReceiveId{static_cast<std::uint16_t>(count_ - reserve_left_)});
  }
}

std::span<ReceiveId> ReceiveLedger::poll_to_post(std::span<ReceiveId> room) {
  const std::size_t count = std::min(room.size(), to_post_.size());
  for (ReceiveId& receive : room.first(count)) receive = to_post_.pop();
  posted_ += static_cast<std::uint32_t>(count);
  return room.first(count);
}

std::size_t ReceiveLedger::poll_unused(std::span<ReceiveId> room, bool ended) {
  std::size_t count = 0;
  while (count < room.size() && polled_ < withheld_.size()) {
    room[count++] = withheld_.at(polled_++);
  }
  while (ended && count < room.size() && !to_post_.empty()) room[count++] = to_post_.pop();
  return count;
}

void ReceiveLedger::grant(std::uint32_t credits) {
  granted_ = credits;
  for (; possible_ < granted_; ++possible_) {
    repost_for_call(withheld_.pop());
    if (polled_ > 0) --polled_;
  }
}

void ReceiveLedger::answered(ReceiveId receive) {
  if (possible_ > granted_) {
    --possible_;
    return withheld_.push(receive);
  }
  repost_for_call(receive);
}

}  // namespace rpcrdma::engine
