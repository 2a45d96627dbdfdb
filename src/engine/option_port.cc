#include "engine/option_port.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::engine {

OptionPort::OptionPort(Shared& shared, HeaderArena headers, std::size_t receives)
    : shared_(shared), headers_(headers), answers_(receives) {}

void OptionPort::handle_received(ReceiveId receive, const Received& message) {
  ++shared_.counters.options_received;
  answers_.push({receive, message.xid});
}

void OptionPort::handle_done(const WorkName& name) {
  RPCRDMA_ASSERT(name.slot < kPlaces && in_use_[name.slot],
                 "a completion for work that was not posted");
  in_use_[name.slot] = false;
}

void OptionPort::handle_disconnected() {
  while (!answers_.empty()) shared_.receives.repost(answers_.pop().receive);
}

void OptionPort::poll_work(WorkRoom& room) {
  while (!answers_.empty() && !room.full()) {
    const auto place = std::ranges::find(in_use_, false);
    if (place == in_use_.end()) return;
    *place = true;
    const auto index = static_cast<std::uint16_t>(place - in_use_.begin());
    const Answer answer = answers_.pop();
    const std::uint32_t size = encode(Dialect::kV2,
                                      {.kind = Kind::kErrorOption,
                                       .xid = answer.xid,
                                       .credits = shared_.receives.granted(),
                                       .direction = Direction::kReply},
                                      {}, headers_.place(index));
    shared_.receives.repost(answer.receive);
    ++shared_.counters.err_option_sent;
    room.add_send(to_id({WorkKind::kOptionSend, 0, index, 0}), headers_.slice(index, size), {},
                  false);
  }
}

}  // namespace rpcrdma::engine
