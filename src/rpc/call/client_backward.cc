// Calls from the server to the client (RFC 8167): how a client answers them, and how a server's
// session makes them through a ClientImpl that has no connection of its own.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "rpc/call/client_impl.h"
#include "rpc/errors.h"

namespace rpcrdma {
namespace {

// The client whose progress() this thread is in, if any.
thread_local const ClientImpl* current_client = nullptr;

}  // namespace

// Returns the previous client.
const ClientImpl* ClientImpl::InTurn::enter(const ClientImpl* client) noexcept {
  return std::exchange(current_client, client);
}

// --- Answering ---------------------------------------------------------------------------------

Expected<void, Error> ClientImpl::serve(std::uint32_t program, std::uint32_t version,
                                        Service& service) {
  if (options_.backward_calls == 0) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "serving calls of the server", peer_,
                                   "ClientOptions::backward_calls is 0"});
  }
  if (registry_.add(program, version, service)) return {};
  return Unexpected<Error>(Error{Errc::kUnsupported, "serving calls of the server", peer_,
                                 "this version of the program is served already"});
}

void ClientImpl::deliver(rpc::Session& session, engine::CallId call) {
  answers_.deliver(session, call);
  provider_.wake();
}

bool ClientImpl::in_turn_of(const rpc::Session& session) const noexcept {
  return current_client == this && link_.session.get() == &session;
}

void ClientImpl::set_adrift(rpc::BackwardCaller&, bool) {
  RPCRDMA_ASSERT(false, "a client's session carries no backward client");
}

Expected<Client, Error> ClientImpl::client_of(rpc::Session&, const BackwardOptions&) {
  return Unexpected<Error>(Error{Errc::kUnsupported, "calling the server", peer_,
                                 "a backward call comes over a client that can be used itself"});
}

void ClientImpl::take_answers() {
  answers_.take_all([this](rpc::Session& session, engine::CallId call) {
    session.answer(call);
    for (Link& link : retired_) {
      if (link.session.get() == &session) handle_answered(link);
    }
  });
}

// On a lost connection nothing goes out any more: the call only ends.
void ClientImpl::handle_answered(Link& link) {
  engine::Connection& engine = link.connection->engine();
  for (const auto* event = engine.event(); event != nullptr; event = engine.event()) {
    link.session->handle(*event);
    engine.drop_event();
  }
}

// --- Making them -------------------------------------------------------------------------------

Client ClientImpl::over(rpc::Session& session, rdma::Provider& provider,
                        const ClientOptions& options, bool outlives_connection) {
  auto impl = std::make_unique<ClientImpl>(nullptr, provider, options);
  impl->session_ = &session;
  impl->connection_ = &session.connection();
  impl->peer_ = std::string(session.connection().peer_address());
  impl->ever_connected_ = true;
  if (outlives_connection) impl->keeper_ = &session.mailbox();
  if (const auto xid = session.last_xid()) impl->last_xid_ = *xid;
  session.set_caller(*impl);
  return Client(std::move(impl));
}

MutableBytes ClientImpl::room_memory(std::uint32_t index) const {
  return session_ != nullptr ? connection_->call_room(index).memory : rooms_.room(index);
}

// Puts bulk items into the message, so that nothing of the caller's is lent: a Client may go while
// its last Sends are still under way. False: no memory.
bool ClientImpl::flatten(Slot& slot) {
  if (slot.writer.items().empty()) return true;
  std::size_t size = slot.writer.size();
  for (const BulkItem& item : slot.writer.items()) size += item.data.size();
  const MutableBytes whole = pool_.take(size);
  if (whole.empty()) return false;
  MessageWriter writer(whole);
  const Bytes stream(slot.stream);
  std::size_t done = 0;
  for (const BulkItem& item : slot.writer.items()) {
    writer.xdr().opaque_fixed(stream.subspan(done, item.at - done));
    writer.xdr().opaque_fixed(item.data);  // with its padding, which is skipped in the stream
    done = item.at + xdr::pad_size(item.data.size());
  }
  writer.xdr().opaque_fixed(stream.subspan(done, slot.writer.size() - done));
  if (!slot.stream_is_room) pool_.give_back(slot.stream);
  slot.stream = whole;
  slot.stream_is_room = false;
  slot.writer = writer;
  return true;
}

void ClientImpl::handle_event(Instant now, const engine::Event& event) {
  in_progress_ = true;
  now_ = now;
  handle(event);
  in_progress_ = false;
  if (!disposed_ || has_started_calls()) return;
  session_->end_caller(last_xid_);
  delete this;  // the last of it, see dispose()
}

// Calls whose last event has not come: the engine may be done with them already.
bool ClientImpl::has_started_calls() const noexcept {
  return std::ranges::any_of(slots_,
                             [](const Slot& slot) { return slot.state == State::kStarted; });
}

bool ClientImpl::holds_replies() const noexcept {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.holds_receive; });
}

// The server goes, with all of its connections.
void ClientImpl::handle_end() {
  session_ = nullptr;
  connection_ = nullptr;
  was_backward_ = true;
  move_streams();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.leases.clear();  // they went with the connection
    slot.holds_receive = false;
    slot.connection = nullptr;
    if (slot.state == State::kStarted) fail(i, lost_error());
  }
  if (disposed_) {
    delete this;
  } else if (keeper_ != nullptr && !closing_) {
    adrift_ = true;
    keeper_->set_adrift(*this, true);
  }
}

// Messages that are written, or wait to be sent again, lie in rooms of the connection, or of this
// client when it has none: they move with it.
void ClientImpl::move_streams() {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const bool is_kept = slot.state == State::kPrepared || slot.state == State::kWaiting;
    if (!is_kept || !slot.stream_is_room) continue;
    slot.stream = room_memory(i);
    slot.writer.xdr().move_to(slot.stream);
  }
}

// --- Between two connections (RFC 8167 §5.4) ---------------------------------------------------

Expected<void, Error> ClientImpl::resume(rpc::Session& session) {
  const auto refused = [&](std::string cause) {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, "resuming calls of the client", peer_, std::move(cause)});
  };
  if (keeper_ == nullptr || closing_) return refused("this client does not outlive its connection");
  if (&session.mailbox() != keeper_) return refused("the call came to another server");
  if (session.connection().ended()) return refused("the connection of the call is lost as well");
  if (!adrift_ && !leave_lost_session()) return refused("this client has a connection");
  if (session.has_caller() || session.last_xid()) {
    return refused("there is, or was, a client for that connection already");
  }
  adrift_ = was_backward_ = false;
  keeper_->set_adrift(*this, false);
  session_ = &session;
  connection_ = &session.connection();
  peer_ = std::string(connection_->peer_address());
  session.set_caller(*this);
  move_streams();
  now_ = provider_.now();
  start_waiting();
  provider_.wake();
  return {};
}

// The session of a lost connection stays as long as Calls of the peer are in service: perhaps for
// want of the very Calls that wait here.
bool ClientImpl::leave_lost_session() {
  if (session_ == nullptr || !connection_->ended()) return false;
  if (has_started_calls() || holds_replies()) return false;
  session_->end_caller(last_xid_);
  handle_end();
  return adrift_;
}

void ClientImpl::handle_time(Instant now) {
  now_ = now;
  in_progress_ = true;
  fail_waiting(false);
  in_progress_ = false;
}

void ClientImpl::handle_server_end() {
  leave_adrift();
  keeper_ = nullptr;
  in_progress_ = true;
  fail_waiting(true);
  in_progress_ = false;
}

void ClientImpl::leave_adrift() {
  adrift_ = false;
  if (keeper_ != nullptr) keeper_->set_adrift(*this, false);
}

// Fails all calls toward their callers. For the engine they end when their Sends are complete.
void ClientImpl::cancel_backward() {
  leave_adrift();
  fail_waiting(true);
  if (session_ == nullptr) return;
  for (Slot& slot : slots_) {
    if (slot.state != State::kStarted) continue;
    ReplyCallback callback = std::move(slot.callback);
    slot.callback = {};
    connection_->engine().cancel(in_progress_ ? now_ : provider_.now(), slot.id);
    callback(Unexpected<Error>(lost_error()));
  }
  provider_.wake();
}

void ClientImpl::dispose(std::unique_ptr<ClientImpl> impl) {
  if (!impl) return;
  if (impl->adrift_) impl->close();
  if (impl->session_ == nullptr) return;
  RPCRDMA_ASSERT(!impl->in_progress_, "a client is destroyed inside of one of its callbacks");
  impl->close();
  if (!impl->has_started_calls()) {
    impl->session_->end_caller(impl->last_xid_);
    return;
  }
  impl->disposed_ = true;
  (void)impl.release();  // handle_event() or handle_end() ends it
}

}  // namespace rpcrdma
