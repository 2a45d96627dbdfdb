#include "rpc/call/waiting_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "rpc/call/call_flow.h"

namespace rpcrdma::rpc {

void WaitingCalls::add(CallSlot& slot) {
  flow_.carrier_->take_back(slot);
  flow_.calls_.wait(slot);
  flow_.policy_.handle_waiting();
}

void WaitingCalls::send() {
  CallTable& calls = flow_.calls_;
  while (calls.waiting() > 0 && flow_.policy_.may_send()) {
    CallSlot& oldest = calls.oldest_waiting();
    calls.leave();
    oldest.timeout = std::max(oldest.deadline - flow_.round_.time(), std::chrono::nanoseconds{0});
    if (auto error = flow_.send(oldest)) {
      if (flow_.carrier_->has_ended()) return add(oldest);
      flow_.fail(calls.index_of(oldest), std::move(*error));
    }
  }
}

void WaitingCalls::fail(bool all) {
  CallTable& calls = flow_.calls_;
  for (std::uint32_t i = 0; i < calls.size() && calls.waiting() > 0; ++i) {
    CallSlot& slot = calls[i];
    if (slot.state != CallState::kWaiting || (!all && slot.deadline > flow_.round_.time()))
      continue;
    fail(slot, all ? flow_.lost_error()
                   : Error{Errc::kTimedOut, "the call", std::string(flow_.carrier_->peer()),
                           flow_.policy_.absence()});
  }
}

void WaitingCalls::fail(CallSlot& slot, Error error) {
  flow_.calls_.leave();
  flow_.fail(flow_.calls_.index_of(slot), std::move(error));
}

CallSlot* WaitingCalls::take_lost_alone() {
  if (flow_.history_.take_lost_message()) return nullptr;  // no other one was alone
  return flow_.calls_.only_one_lost_with(flow_.history_.number());
}

}  // namespace rpcrdma::rpc
