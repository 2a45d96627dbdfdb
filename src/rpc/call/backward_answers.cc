#include "rpc/call/backward_answers.h"

#include <string>
#include <utility>

#include "base/assert.h"

namespace rpcrdma::rpc {
namespace {

// The link whose turn it is on this thread, in the progress() of its client.
thread_local const Link* current_link = nullptr;

}  // namespace

BackwardAnswers::InTurn::InTurn(const BackwardAnswers& answers, const Link& link) noexcept
    : enabled_(answers.enabled()) {
  if (enabled_) before_ = std::exchange(current_link, &link);
}

BackwardAnswers::InTurn::~InTurn() {
  if (enabled_) current_link = before_;
}

std::unique_ptr<Session> BackwardAnswers::make_session(transport::Connection& connection,
                                                       std::size_t calls) {
  return std::make_unique<Session>(
      connection, Session::Surroundings{pool_, memory_queue_, registry_, regions_, cache_, *this},
      calls);
}

void BackwardAnswers::take(std::vector<Link>& retired, Instant now) {
  answers_.take_all([&](IncomingCall& call) {
    call.serving().handle_delivered(call, now);
    for (Link& link : retired) {
      if (link.session.get() != &call.serving().carrier()) continue;
      // On a lost connection nothing goes out any more: the call only ends.
      engine::Connection& engine = link.connection->engine();
      for (const auto* event = engine.event(); event != nullptr; event = engine.event()) {
        link.session->handle(*event);
        engine.drop_event();
      }
    }
  });
}

void BackwardAnswers::deliver(IncomingCall& call) {
  answers_.deliver(call, [this] { provider_.wake(); });
}

bool BackwardAnswers::in_turn_of(const ReplyCarrier& carrier) const noexcept {
  return current_link != nullptr && current_link->session.get() == &carrier;
}

void BackwardAnswers::set_disconnected(BackwardCaller& /*caller*/, bool /*disconnected*/) {
  RPCRDMA_ASSERT(false, "a client's session carries no backward client");
}

Expected<Client, Error> BackwardAnswers::client_of(Session& session,
                                                   const BackwardOptions& /*options*/) {
  return Unexpected<Error>(Error{Errc::kUnsupported, "calling the server",
                                 std::string(session.connection().peer_address()),
                                 "a backward call comes over a client that can be used itself"});
}

}  // namespace rpcrdma::rpc
