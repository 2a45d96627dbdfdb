#include "rpc/call/backward_client.h"

#include <memory>
#include <utility>

#include "base/assert.h"
#include "rpc/counters.h"
#include "rpc/engine_options.h"

namespace rpcrdma {

BackwardClient::BackwardClient(rpc::Session& session, rdma::Provider& provider,
                               const ClientOptions& options, bool outlives_connection)
    : ClientImpl(
          options,
          {rpc::engine_options(options).calls_max, false, outlives_connection, /*finishes*/ true},
          [&provider] { return provider.now(); }, [&provider] { provider.wake(); }),
      provider_(provider),
      own_rooms_(flow_.calls().size()),
      carrier_(provider, flow_, *this, {true, !options.connection.reduce, false, false}, nullptr) {
  flow_.set_carrier(carrier_);
  flow_.history().note_going_on();
  if (outlives_connection) keeper_ = home_ = &session.mailbox();
  if (const auto xid = session.caller().last_xid()) flow_.prepared().set_last_xid(*xid);
  use_session(&session);
}

Expected<Client, Error> BackwardClient::over(rpc::Session& session, rdma::Provider& provider,
                                             const ClientOptions& options,
                                             bool outlives_connection) {
  auto made = std::make_unique<BackwardClient>(session, provider, options, outlives_connection);
  if (!made->own_rooms_.is_whole()) {
    return Unexpected<Error>(Error{Errc::kNoResources, "calling the client",
                                   std::string(session.connection().peer_address()),
                                   "no memory for messages"});
  }
  session.caller().take(*made);
  return make_client(std::move(made));
}

// Null: there is none, and no connection.
void BackwardClient::use_session(rpc::Session* session) {
  session_ = session;
  has_left_ = session == nullptr;
  carrier_.errors().set_provider_is_there(!has_left_);
  connection_ = has_left_ ? nullptr : &session->connection();
  carrier_.use_rooms(has_left_ ? &own_rooms_ : nullptr);
  carrier_.use_connection(connection_);
  if (!has_left_) carrier_.errors().set_peer(connection_->peer_address());
}

// --- What it cannot do -------------------------------------------------------------------------

Expected<Reply, Error> BackwardClient::call(Call /*call*/) {
  return Unexpected<Error>(unsupported(
      "the call",
      "waiting for a backward call would keep the server from making progress; use start() or "
      "call_async()"));
}

Expected<void, Error> BackwardClient::serve(std::uint32_t /*program*/, std::uint32_t /*version*/,
                                            Service& /*service*/) {
  return Unexpected<Error>(
      unsupported("serving calls of the server", "ClientOptions::backward_calls is 0"));
}

Expected<RegisteredMemory, Error> BackwardClient::register_memory(Bytes /*memory*/,
                                                                  std::byte* /*writable*/) {
  if (!connected() && ended()) return Unexpected<Error>(flow_.lost_error());
  return Unexpected<Error>(
      unsupported("registering memory", "backward calls move all their data in messages"));
}

void BackwardClient::handle_other(const engine::Event& /*event*/) {
  RPCRDMA_ASSERT(false, "a backward client got an event of its session's");
}

// --- Calls -------------------------------------------------------------------------------------

std::optional<Error> BackwardClient::finish_message(rpc::CallSlot& slot) {
  if (flatten(slot)) return std::nullopt;
  return carrier_.errors().no_resources("its memory_max has no room for the arguments");
}

// Puts bulk items into the message, so that nothing of the caller's is lent: a Client may go while
// its last Sends are still under way. False: no memory.
bool BackwardClient::flatten(rpc::CallSlot& slot) {
  if (slot.writer.items().empty()) return true;
  std::size_t size = rpc::kHeaderRoom + slot.writer.size();
  for (const BulkItem& item : slot.writer.items()) size += item.data.size();
  const MutableBytes whole = flow_.pool().take(size);
  if (whole.empty()) return false;
  MessageWriter writer(whole.subspan(rpc::kHeaderRoom));
  const Bytes stream(slot.arguments());
  std::size_t done = 0;
  for (const BulkItem& item : slot.writer.items()) {
    writer.xdr().opaque_fixed(stream.subspan(done, item.at - done));
    writer.xdr().opaque_fixed(item.data);  // with its padding, which is skipped in the stream
    done = item.at + xdr::pad_size(item.data.size());
  }
  writer.xdr().opaque_fixed(stream.subspan(done, slot.writer.size() - done));
  if (!slot.stream_is_room) flow_.pool().give_back(slot.stream);
  slot.stream = whole;
  slot.stream_is_room = false;
  slot.writer = writer;
  return true;
}

void BackwardClient::handle_event(Instant now, const engine::Event& event) {
  flow_.round().begin(now);
  carrier_.handle(event);
  flow_.round().end();
  if (!has_no_client_ || flow_.calls().any_started()) return;
  session_->caller().vacate(flow_.prepared().last_xid());  // the seat lets go of it then
}

TransferCounters BackwardClient::counters() const noexcept {
  TransferCounters counters;
  if (connection_ != nullptr) rpc::add(counters, *connection_);
  return counters;
}

// --- Between two connections (RFC 8167 §5.4) ---------------------------------------------------

void BackwardClient::handle_waiting() {
  if (keeper_ != nullptr) keeper_->set_disconnected(*this, true);
}

// The server goes, with all of its connections; or this one does.
void BackwardClient::handle_end() {
  use_session(nullptr);
  flow_.history().note_gone();
  move_streams();
  rpc::CallTable& calls = flow_.calls();
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    const bool held_receive = std::exchange(calls[i].holds_receive, false);
    calls[i].connection = nullptr;
    // A reply that the application keeps lies in Receives of the connection, which go with it.
    if (held_receive && calls[i].state == rpc::CallState::kEnded) {
      calls[i].reader.xdr().fail(xdr::Errc::kTruncated, "results of a connection that has gone");
    }
    if (calls[i].state == rpc::CallState::kStarted) flow_.fail(i, flow_.lost_error());
  }
  if (has_no_client_) return;  // the seat lets go of it
  if (waits_for_next()) {
    disconnected_ = true;
    keeper_->set_disconnected(*this, true);
  } else {
    forget_server();  // which may be going
  }
}

// Messages that are written, or wait to be sent again, lie in rooms of the connection, or of this
// client when it has none: they move with it.
void BackwardClient::move_streams() {
  for (rpc::CallSlot& slot : flow_.calls()) {
    const bool is_kept =
        slot.state == rpc::CallState::kPrepared || slot.state == rpc::CallState::kWaiting;
    if (!is_kept || !slot.stream_is_room) continue;
    slot.stream = carrier_.room(flow_.calls().index_of(slot));
    slot.writer.xdr().move_to(slot.arguments());
  }
}

Expected<void, Error> BackwardClient::resume(rpc::Session& session) {
  const auto refused = [&](std::string cause) {
    return Unexpected<Error>(unsupported("resuming calls of the client", std::move(cause)));
  };
  // First: on another thread of the server nothing else may be looked at.
  if (home_ != nullptr && &session.mailbox() != home_) {
    return Unexpected<Error>(Error{
        Errc::kUnsupported, "resuming calls of the client",
        std::string(session.connection().peer_address()),
        "the call came to another server, or to another thread of this one, which has shards"});
  }
  if (keeper_ == nullptr || flow_.is_closing())
    return refused("this client does not outlive its connection");
  if (session.connection().ended()) return refused("the connection of the call is lost as well");
  if (!disconnected_ && !drop_lost_session()) return refused("this client has a connection");
  if (session.caller().caller() != nullptr || session.caller().last_xid()) {
    return refused("there is, or was, a client for that connection already");
  }
  end_disconnection();
  use_session(&session);
  session.caller().take(*this);
  move_streams();
  flow_.round().begin(provider_.now());
  flow_.waiting().send();
  flow_.round().end();
  want_turn();
  return {};
}

// The session of a lost connection stays as long as Calls of the peer are in service: perhaps for
// want of the very Calls that wait here.
bool BackwardClient::drop_lost_session() {
  if (session_ == nullptr || !connection_->ended()) return false;
  if (flow_.calls().any_started() || holds_replies()) return false;
  session_->caller().vacate(flow_.prepared().last_xid());
  handle_end();
  return disconnected_;
}

void BackwardClient::forget_server() noexcept {
  keeper_ = nullptr;
  flow_.set_keeps_calls(false);
}

void BackwardClient::end_disconnection() {
  disconnected_ = false;
  if (keeper_ != nullptr) keeper_->set_disconnected(*this, false);
}

std::string BackwardClient::absence() const {
  return "no connection of the client within the call's time";
}

void BackwardClient::handle_time(Instant now) {
  flow_.round().begin(now);
  flow_.waiting().fail(false);
  // The other calls have their own time. The end of the round may be that of this client.
  if (flow_.calls().waiting() > 0) handle_waiting();
  flow_.round().end();
}

// --- The end -----------------------------------------------------------------------------------

void BackwardClient::handle_server_end() {
  end_disconnection();
  forget_server();
  flow_.round().begin();
  flow_.waiting().fail(true);
  flow_.round().end();
}

// Fails all calls toward their callers. For the engine they end when their Sends are complete.
void BackwardClient::close() noexcept {
  flow_.close();
  carrier_.set_use(rpc::RdmaCarrier::Use::kNoMore);
  end_disconnection();
  flow_.waiting().fail(true);
  if (session_ == nullptr) return;
  for (rpc::CallSlot& slot : flow_.calls()) {
    if (slot.state != rpc::CallState::kStarted) continue;
    ReplyCallback callback = std::move(slot.callback);
    slot.callback = {};
    connection_->engine().requester().cancel(flow_.now(), slot.id);
    callback(Unexpected<Error>(flow_.lost_error()));
  }
  want_turn();
}

void BackwardClient::want_turn() {
  if (session_ != nullptr) session_->want_turn();
  provider_.wake();
}

void BackwardClient::handle_client_end(std::unique_ptr<ClientImpl> self) {
  if (disconnected_) close();
  if (session_ == nullptr) return;
  RPCRDMA_REQUIRE(!flow_.in_round(), "a client is destroyed inside of one of its callbacks");
  close();
  rpc::CallerSeat& seat = session_->caller();
  if (!flow_.calls().any_started()) return seat.vacate(flow_.prepared().last_xid());
  has_no_client_ = true;  // handle_event() or handle_end() sees the last call
  (void)self.release();
  seat.keep(std::unique_ptr<rpc::BackwardCaller>(this));
}

}  // namespace rpcrdma
