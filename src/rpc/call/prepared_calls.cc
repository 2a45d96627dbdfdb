#include "rpc/call/prepared_calls.h"

#include <memory>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/probes.h"
#include "rpc/call/call_causes.h"
#include "rpc/call/call_flow.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/sealing.h"
#include "rpc/errors.h"
#include "rpc/time_limit.h"

namespace rpcrdma::rpc {

// The call's stream is there.
inline void PreparedCalls::init(CallSlot& slot, const Procedure& procedure) {
  slot.state = CallState::kPrepared;
  slot.blocking = slot.holds_receive = false;
  slot.connection = nullptr;
  slot.procedure = procedure;
  flow_.calls_.set_xid(slot, draw_xid());
  slot.result_count = 0;
  slot.results_refused = slot.is_whole = false;
  slot.results_size_max = CallSlot::kResultsSizeDefault;
  slot.timeout = limited(flow_.options_.call_timeout);
  slot.memory.clear();
  slot.error.reset();
  std::construct_at(&slot.writer, slot.arguments());
}

Expected<Call, Error> PreparedCalls::prepare(const Procedure& procedure,
                                             std::size_t arguments_size) {
  Carrier& carrier = *flow_.carrier_;
  if (!carrier.is_up()) [[unlikely]] {
    if (auto refusal = flow_.refusal()) return Unexpected<Error>(std::move(*refusal));
  }
  CallTable& calls = flow_.calls_;
  if (calls.full()) {
    return Unexpected<Error>(to_error(engine::StartError::kQueueFull, carrier.peer()));
  }
  const std::uint32_t index = calls.next();
  CallSlot& slot = calls[index];
  if (!carrier.lend_stream(slot, arguments_size)) {
    return Unexpected<Error>(Error{Errc::kNoResources, "preparing a call",
                                   std::string(carrier.peer()),
                                   "ClientOptions::memory_max is used up by calls under way"});
  }
  calls.take();
  init(slot, procedure);
  probes::client_call_prepared(&flow_, static_cast<std::uint32_t>(slot.xid), slot.procedure.program,
                               slot.procedure.version, slot.procedure.number);
  return flow_.client_.make_call(index);
}

Expected<Call, Error> PreparedCalls::prepare_message(std::size_t size) {
  auto call = prepare({}, size);
  if (call) set_message(flow_.calls_[ClientImpl::slot_of(*call)]);
  return call;
}

CallSlot& PreparedCalls::prepare_own(const Procedure& procedure, bool is_message) {
  CallSlot& slot = flow_.calls_[flow_.calls_.own()];
  const bool is_lent = flow_.carrier_->lend_stream(slot, 0);
  RPCRDMA_ASSERT(is_lent, "the room of the library's own call is missing");
  init(slot, procedure);
  if (is_message) set_message(slot);
  return slot;
}

std::optional<Error> PreparedCalls::check(CallSlot& slot) {
  const std::string_view peer = flow_.carrier_->peer();
  if (slot.results_refused || !slot.writer.ok()) {
    return Error{Errc::kTooLarge,
                 slot.results_refused ? "placing the results" : "encoding the arguments",
                 std::string(peer), cause_of_refusal(slot)};
  }
  if (!slot.is_whole) return std::nullopt;
  const auto xid = xid_of(slot.writer, slot.arguments());
  if (!xid) return no_call(peer);
  if (is_in_use(*xid)) return xid_in_use(peer);
  flow_.calls_.set_xid(slot, *xid);
  return std::nullopt;
}

bool PreparedCalls::is_in_use(Xid xid) {
  return flow_.calls_.is_in_use(xid);
}

}  // namespace rpcrdma::rpc
