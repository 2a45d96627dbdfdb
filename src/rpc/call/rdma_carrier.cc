#include "rpc/call/rdma_carrier.h"

#include <utility>
#include <variant>

#include "rpc/call/call_causes.h"
#include "rpc/call/reply_reading.h"
#include "rpc/terms.h"

namespace rpcrdma::rpc {

RdmaCarrier::RdmaCarrier(rdma::Provider& provider, CallFlow& flow, Owner& owner,
                         const CallSender::Limits& limits, const transport::MessageRooms* rooms)
    : provider_(provider),
      flow_(flow),
      owner_(owner),
      errors_(provider),
      rooms_(rooms),
      sender_(limits, flow.growth(), flow.pool(), flow.calls(), memory_) {}

void RdmaCarrier::use_connection(transport::Connection* connection) {
  connection_ = connection;
  memory_.move_to(connection);
}

void RdmaCarrier::forget_connection() {
  for (CallSlot& slot : flow_.calls()) {
    if (slot.connection == connection_ && !slot.holds_receive) slot.connection = nullptr;
  }
  use_connection(nullptr);
  flow_.history().note_gone();
}

std::optional<ConnectionCharacteristics> RdmaCarrier::characteristics() const noexcept {
  if (!is_up() || connection_->engine().protocol_version() != 2) return std::nullopt;
  const engine::CharacteristicTable& table = connection_->engine().option_port().characteristics();
  return ConnectionCharacteristics{table.own(), table.peer()};
}

std::optional<ConnectionTerms> RdmaCarrier::terms() const noexcept {
  if (!is_up()) return std::nullopt;
  return terms_of(*connection_, provider_.name(), connection_->engine().protocol_version(),
                  connection_->engine().requester().credits().limit());
}

// --- Messages ----------------------------------------------------------------------------------

bool RdmaCarrier::lend_stream(CallSlot& slot, std::size_t arguments_size) {
  const std::size_t size = kHeaderRoom + arguments_size;
  slot.stream_is_room = size <= transport::MessageRooms::kSize;
  slot.stream = slot.stream_is_room ? room(flow_.calls().index_of(slot)) : flow_.pool().take(size);
  return !slot.stream.empty();
}

std::optional<Error> RdmaCarrier::send(CallSlot& slot) {
  if (has_ended()) return flow_.lost_error();
  const auto refusal = sender_.start(slot, *connection_, flow_.now());
  if (!refusal) return std::nullopt;
  const bool is_lost = refusal->kind == CallSender::Refusal::Kind::kEngine &&
                       refusal->error == engine::StartError::kNotConnected;
  return is_lost ? flow_.lost_error() : errors_.explain(*refusal);
}

void RdmaCarrier::free(CallSlot& slot, bool keeps_call) {
  memory_.take_back(slot.memory, slot.connection);
  if (slot.holds_receive) {
    engine::Connection& engine = slot.connection->engine();
    engine.requester().release(slot.id);
    slot.holds_receive = false;
    if (!flow_.in_round()) owner_.handle_released(engine.requester().calls_waiting() > 0);
  }
  const bool has_stream = !slot.stream.empty() && !slot.stream_is_room && !keeps_call;
  if (has_stream) flow_.pool().give_back(slot.stream);
  if (!slot.reply_room.empty()) flow_.pool().give_back(slot.reply_room);
  // A call of the peer may have waited for this memory.
  const bool may_be_waited_for = has_stream || !slot.reply_room.empty();
  if (may_be_waited_for && !flow_.in_round() && connection_ != nullptr &&
      connection_->engine().responder().calls_in_service() > 0) {
    provider_.wake();
  }
  slot.reply_room = {};
}

// --- Events of the engine ----------------------------------------------------------------------

void RdmaCarrier::handle(const engine::Event& event) {
  if (const auto* reply = std::get_if<engine::ReplyReady>(&event)) {
    handle_reply(flow_.calls().find(reply->call), *reply);
  } else if (const auto* failed = std::get_if<engine::CallFailed>(&event)) {
    handle_failed(flow_.calls().find(failed->call), failed->error);
  } else {
    owner_.handle_other(event);
  }
}

void RdmaCarrier::handle_reply(std::uint32_t index, const engine::ReplyReady& reply) {
  CallSlot& slot = flow_.calls()[index];
  slot.holds_receive = true;
  flow_.begin_reply(slot);
  auto error = read_reply(slot, reply, errors_.peer());
  memory_.take_back(slot.memory, slot.connection);
  flow_.handle_reply(index, std::move(error));
}

void RdmaCarrier::handle_failed(std::uint32_t index, engine::CallError error) {
  if (error == engine::CallError::kConnectionLost) return flow_.lose(index);
  Error explained = explain(error);
  if (error == engine::CallError::kChunk && !flow_.calls().is_own(index)) {
    explained.cause = cause_of_chunk_error(
        flow_.calls()[index], connection_ != nullptr ? connection_->reads_served_max() : 1);
  }
  flow_.fail(index, std::move(explained), error != engine::CallError::kTimedOut);
}

}  // namespace rpcrdma::rpc
