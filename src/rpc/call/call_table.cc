#include "rpc/call/call_table.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::rpc {

CallTable::CallTable(std::size_t calls_max, bool own)
    : slots_(calls_max),
      slot_of_call_(calls_max),
      xids_(calls_max),
      own_(static_cast<std::uint32_t>(own ? calls_max - 1 : calls_max)) {
  free_.reserve(own_);
  for (std::uint32_t i = own_; i > 0; --i) free_.push_back(i - 1);
}

bool CallTable::is_in_use(Xid xid) {
  const auto has_one = [this](std::size_t i) {
    const CallSlot& slot = slots_[i];
    const bool is_drawn = slot.state == CallState::kPrepared && !slot.is_whole;
    return is_drawn || is_under_way(slot.state);
  };
  return xids_.find(xid, has_one).has_value();
}

std::optional<std::uint32_t> CallTable::find(Xid xid) {
  const auto is_sent = [this](std::size_t i) { return slots_[i].state == CallState::kStarted; };
  const auto found = xids_.find(xid, is_sent);
  if (!found) return std::nullopt;
  return static_cast<std::uint32_t>(*found);
}

std::uint32_t CallTable::find(engine::CallId id) const {
  const auto is_it = [id](const CallSlot& slot) {
    return slot.state == CallState::kStarted && slot.id == id;
  };
  const std::uint32_t last = slot_of_call_[engine::slot_of(id)];
  if (is_it(slots_[last])) return last;
  // A callback has started another call in the engine's slot before this event had its turn.
  const auto found = std::ranges::find_if(slots_, is_it);
  RPCRDMA_ASSERT(found != slots_.end(), "the end of no call");
  return index_of(*found);
}

// Calls whose last event has not come: the engine may be done with them already.
bool CallTable::any_started() const noexcept {
  return std::ranges::any_of(
      slots_, [](const CallSlot& slot) { return slot.state == CallState::kStarted; });
}

bool CallTable::any_holds_receive() const noexcept {
  return std::ranges::any_of(slots_, [](const CallSlot& slot) { return slot.holds_receive; });
}

bool CallTable::holds_receive_of(const transport::Connection* connection) const noexcept {
  return std::ranges::any_of(slots_, [connection](const CallSlot& slot) {
    return slot.connection == connection && slot.holds_receive;
  });
}

CallSlot& CallTable::oldest_waiting() {
  CallSlot* oldest = nullptr;
  for (CallSlot& slot : slots_) {
    if (slot.state != CallState::kWaiting) continue;
    const bool older =
        oldest == nullptr || static_cast<std::int32_t>(static_cast<std::uint32_t>(slot.xid) -
                                                       static_cast<std::uint32_t>(oldest->xid)) < 0;
    if (older) oldest = &slot;
  }
  RPCRDMA_ASSERT(oldest != nullptr, "a waiting call that no slot has");
  return *oldest;
}

CallSlot* CallTable::only_one_lost_with(std::uint32_t link) {
  CallSlot* only = nullptr;
  for (CallSlot& slot : slots_) {
    if (slot.state != CallState::kWaiting || slot.link != link) continue;
    if (only != nullptr) return nullptr;
    only = &slot;
  }
  return only;
}

Deadline CallTable::deadline() const {
  if (waiting_ == 0) return std::nullopt;
  Deadline first;
  for (const CallSlot& slot : slots_) {
    if (slot.state == CallState::kWaiting) first = earlier(first, slot.deadline);
  }
  return first;
}

}  // namespace rpcrdma::rpc
