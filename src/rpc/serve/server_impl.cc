#include "rpc/serve/server_impl.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "rpc/call/backward_client.h"
#include "rpc/counters.h"
#include "rpc/engine_options.h"
#include "rpc/errors.h"
#include "rpc/time_limit.h"

namespace rpcrdma {

namespace {

// The server whose progress() this thread is in, if any.
thread_local ServerImpl* current_server = nullptr;
// Sets it as long as it lives, and no longer: a service's exception may end progress().
class Current {
 public:
  explicit Current(ServerImpl& server) noexcept { current_server = &server; }
  ~Current() { current_server = nullptr; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

constexpr int kAcceptsPerRound = 64;

constexpr auto kRdma = rpc::ConnectionLog::Transport::kRdma;

using rpc::RdmaPeer;

// Refuses a connection that was admitted before the server began to stop.
void drop(rpc::ConnectionLog& log, const rdma::Incoming& incoming) {
  const std::string peer(incoming.peer_address());
  log.drop(peer, kRdma, rpc::is_stopping(peer));
}

// Makes the Receives of a connection long if it may have such. Returns whether it may. They are not
// for peers that send no long messages, as Linux does not.
bool lengthen_receives(rpc::ServerState& state, const rdma::Incoming& incoming,
                       engine::Options& options) {
  if (state.long_receive_size == 0 || !incoming.receives_are_elastic() ||
      engine::send_size_of_peer(incoming.private_data()) <= engine::receive_size(options) ||
      !state.long_receives.take(incoming.peer_address())) {
    return false;
  }
  options.inline_receive = state.long_receive_size;
  return true;
}

}  // namespace

// --- ServerImpl --------------------------------------------------------------------------------

ServerImpl::ServerImpl(rpc::ServerState& state, std::unique_ptr<rdma::Provider> owned,
                       rdma::Provider* provider)
    : owned_provider_(std::move(owned)),
      loop_(provider),
      state_(state),
      options_(state.options),
      engine_options_(state.engine_options),
      pool_(options_.memory_max),
      cache_(state.cache),
      log_(state.log),
      meter_(options_.measures_calls || options_.on_call
                 ? std::make_unique<rpc::CallMeter>(rpc::clock_of(loop_), options_.on_call)
                 : nullptr),
      tcp_({state, inbox_, pool_, loop_, *this, peers_, time_, meter_.get(), &host_memory_}) {
  state_.inboxes.push_back(&inbox_);
}

ServerImpl* ServerImpl::current() noexcept {
  return current_server;
}

ServerImpl::~ServerImpl() {
  await_steps();
  disconnected_.end_all();
  // This comes while all is still there: the callbacks may use contexts, whose answers take the
  // mailbox.
  peers_.for_each<RdmaPeer>([](RdmaPeer& peer) { peer.session->caller().end_calls(); });
  // This comes before the memory of the callers goes: if they have chunks, it may still be exposed.
  peers_.for_each<RdmaPeer>([](RdmaPeer& peer) {
    const bool has_caller = peer.session->caller().caller() != nullptr;
    if (has_caller && peer.connection->engine().link().chunks) peer.session->disconnect();
  });
  peers_.for_each<RdmaPeer>([](RdmaPeer& peer) { peer.session->caller().release(); });
  disconnected_.end_all();  // a callback of the last calls may have made a client to outlive these
}

// A call stays until its step has ended, since the authenticator may use it.
void ServerImpl::await_steps() {
  if (!peers_.awaits_steps()) return;
  // Otherwise news of peers would wake this loop again and again.
  peers_.for_each<RdmaPeer>([](RdmaPeer& peer) { peer.session->disconnect(); });
  tcp_.abort();
  while (peers_.awaits_steps()) {
    loop_.wait();
    loop_.progress();
    answers_.take_all([](rpc::IncomingCall& call) { call.serving().drop_step(call); });
  }
}

Expected<std::string, Error> ServerImpl::listen(std::string_view address) {
  rdma::Provider& provider = *loop_.provider();
  auto listener = provider.listen(address);
  if (!listener) {
    return Unexpected<Error>(
        rpc::to_error(listener.error(), "listening", address, provider.remedy(listener.error())));
  }
  std::string real((*listener)->address());
  listeners_.push_back(std::move(*listener));
  state_.takes_step_ups = listeners_.front()->can_adopt();
  if (address_.empty()) address_ = real;
  return real;
}

Expected<std::string, Error> ServerImpl::listen_tcp(std::string_view address) {
  auto real = tcp_.listen(address);
  if (real && address_.empty()) address_ = *real;
  return real;
}

Expected<std::string, Error> ServerImpl::listen_tcp(posix::Fd socket) {
  auto real = tcp_.listen(std::move(socket));
  if (real && address_.empty()) address_ = *real;
  return real;
}

Expected<void, Error> ServerImpl::prepare_tcp() {
  const auto reactor = loop_.reactor();
  if (!reactor) return Unexpected<Error>(reactor.error());
  return {};
}

Expected<void, Error> ServerImpl::set_provider(std::unique_ptr<rdma::Provider> provider) {
  auto joined = loop_.set_provider(*provider);
  if (joined) owned_provider_ = std::move(provider);
  return joined;
}

void ServerImpl::drop_provider() noexcept {
  loop_.drop_provider();
  owned_provider_.reset();
}

Expected<void, Error> ServerImpl::register_read_only(Bytes memory) {
  if (regions_.add(memory, nullptr)) return {};
  return Unexpected<Error>(Error{Errc::kUnsupported, "registering memory", address_,
                                 "it is empty, or overlaps memory that is registered already"});
}

Expected<void, Error> ServerImpl::adopt(int descriptor) {
  if (listeners_.empty()) {
    ::close(descriptor);
    if (failure_) return Unexpected<Error>(*failure_);
    const bool is_tcp = tcp_.listens();
    return Unexpected<Error>(
        Error{is_tcp ? Errc::kUnsupported : Errc::kCanceled, "taking over a connection", address_,
              is_tcp ? "the server listens at no rdma:// address" : "the server is stopping"});
  }
  if (auto adopted = listeners_.front()->adopt(descriptor); !adopted) {
    return Unexpected<Error>(rpc::to_error(adopted.error(), "taking over a connection", address_));
  }
  return {};
}

void ServerImpl::progress() {
  RPCRDMA_REQUIRE(current_server == nullptr, "a service must not call progress()");
  const Current current(*this);
  loop_.progress();
  time_.begin();
  const Instant now = time_.now();
  if (meter_ != nullptr) meter_->begin_round(now);
  take_inbox(now);
  accept_connections();
  if (tcp_.accept_connections(now)) places_.note_lack();
  if (places_.is_lacking()) [[unlikely]] {
    peers_.serve_before_judging(time_);
    places_.make_up_for_lack(peers_, tcp_, now);
  }
  notice_failure();
  share_receives();
  answers_.take_all([this](rpc::IncomingCall& call) {
    const bool may_be_served = call.waits_for_step();
    call.serving().handle_delivered(call, time_.now());
    if (may_be_served) time_.refresh();
  });
  serve_sessions();
  if (stop_requested_.load(std::memory_order_acquire)) {
    drain();
    serve_sessions();  // sees the end of the connections that drain() closed
  }
  disconnected_.handle_time(time_.begun());
  share_receives();
  if (peers_.anybody_wants_turn()) loop_.wake();
  arm_timer();
  for (const bool with_connections : {false, true}) {
    board(with_connections).answer([&] { return statistics(with_connections); });
  }
}

void ServerImpl::take_inbox(Instant now) {
  rpc::ShardInbox::Items items = inbox_.take();
  if (items.empty()) [[likely]]
    return;
  for (auto& request : items.requests) accept(std::move(request));
  for (tcp::Accepted& accepted : items.sockets) tcp_.accept(std::move(accepted), now);
  for (posix::Fd& socket : items.stepping_up) {
    // If it fails, because there are too many, it has closed the connection.
    if (!listeners_.empty()) (void)listeners_.front()->adopt(socket.release());
  }
}

void ServerImpl::close_inbox() {
  rpc::ShardInbox::Items items = inbox_.close();
  for (auto& request : items.requests) drop(log_, *request);
  for (const tcp::Accepted& accepted : items.sockets) tcp_.drop(accepted);
}

void ServerImpl::serve_sessions() {
  // Counted before the turns: a duplicate may begin to wait in one of them while its first ends on
  // another thread.
  const std::uint64_t ends = cache_.ends();
  retry_waiting();
  if (!peers_.anybody_waits_for_a_call()) ends_ = ends;
  peers_.serve(time_);
  // Others may wait for what one gave back: they have their turn in the next round.
  retry_waiting();
}

// Gives turns to peers that wait for the end of a call, if one has ended, and to those that wait
// for memory, if there is more: over RDMA, to the first.
void ServerImpl::retry_waiting() {
  const std::uint64_t ends = cache_.ends();
  if (peers_.anybody_waits_for_a_call() && ends != ends_) {
    peers_.handle_call_end();
    ends_ = ends;  // what ends from now on is looked at next time
  }
  tcp_.retry_starved();
  if (!memory_queue_.is_worth_trying(pool_.buffers_returned())) return;
  memory_queue_.first()->want_turn();
}

rpc::Peer::State ServerImpl::settle(RdmaPeer& peer, const rpc::RoundTime& time) {
  if (options_.idle_timeout.count() > 0)
    peer.end_if_idle(time, rpc::limited(options_.idle_timeout));
  rpc::Session& session = *peer.session;
  if (!peer.is_ready && peer.connection->connected()) [[unlikely]] {
    peer.report_ready(log_, loop_.provider()->name());
  }
  if (draining_ && (session.idle() || drain_is_over_)) session.disconnect();
  if (!peer.connection->ended()) [[likely]]
    return rpc::Peer::State::kOpen;
  if (!session.finished()) return rpc::Peer::State::kEnded;
  report_end(peer);
  return rpc::Peer::State::kFinished;
}

void ServerImpl::accept_connections() {
  // By number: where others are served first, their services may add a listener.
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    rdma::Listener& listener = *listeners_[i];
    int left = kAcceptsPerRound;
    while (auto incoming = listener.poll_incoming()) {
      const std::string_view peer = incoming->peer_address();
      // The other connection does not go at once, so there may be one too many for a moment.
      if (log_.is_full(kRdma)) [[unlikely]]
        peers_.serve_before_judging(time_);
      const bool may_exceed = log_.is_full(kRdma) && places_.end_spare(peer, peers_, time_.begun());
      if (log_.admit(peer, kRdma, may_exceed)) {
        // The shards get connections in turn.
        rpc::ShardInbox& next = state_.deal_rdma(peer);
        if (&next == &inbox_ || stopping() || !incoming->detach()) {
          accept(std::move(incoming));
        } else if (!next.put(incoming)) {
          drop(log_, *incoming);
        }
      }
      if (--left > 0) continue;
      loop_.wake();
      break;
    }
    if (const auto refusal = listener.poll_refusal()) [[unlikely]] {
      log_.refuse(fmt::format("a client of {}", listener.address()),
                  rpc::not_accepted(*refusal, listener.address()));
      if (refusal->code == rdma::Errc::kNoResources) places_.note_lack();
    }
  }
}

// Precondition: the connection was admitted.
void ServerImpl::accept(std::unique_ptr<rdma::Incoming> incoming) {
  if (draining_) return drop(log_, *incoming);
  const std::string peer(incoming->peer_address());
  engine::Options options = engine_options_;
  if (!incoming->sends_with_invalidate()) options.remote_invalidation = false;
  const bool has_long_receives = lengthen_receives(state_, *incoming, options);
  const auto drop_it = [&](const rdma::Error& cause) {
    if (has_long_receives) state_.long_receives.give_back(peer);
    if (cause.code == rdma::Errc::kNoResources) places_.note_lack(peer);
    log_.drop(peer, kRdma, rpc::to_error(cause, "accepting", peer));
  };
  const auto data = rpc::set_up_data(options);
  auto queue_pair = loop_.provider()->accept(std::move(incoming), data);
  if (!queue_pair) return drop_it(queue_pair.error());  // it went away meanwhile, for one
  // A client makes one Call before its first reply (RFC 8166 §3.3.3), which brings its share.
  if (options_.receives_max > 0) options.credits_at_first = 1;
  auto connection = transport::Connection::create(std::move(*queue_pair), engine::Role::kServer,
                                                  options, nullptr, options_.tap);
  if (!connection) return drop_it(connection.error());
  using engine::Connection, engine::Role;
  auto session = std::make_unique<rpc::Session>(
      **connection,
      rpc::Session::Surroundings{pool_, memory_queue_, state_.registry, regions_, cache_, *this,
                                 meter_.get(), &host_memory_},
      Connection::answered_slot_count(Role::kServer, engine_options_));
  if (options_.receives_max > 0)
    (*connection)->engine().responder().set_credits(share_of(peers_.count<RdmaPeer>() + 1));
  rpc::Serving& serving = session->serving();
  RdmaPeer::Owner& owner = *this;
  auto served =
      std::make_unique<RdmaPeer>(peers_, owner, std::move(session), std::move(*connection));
  served->has_long_receives = has_long_receives;
  peers_.add(std::move(served));
  places_.add(peer);
  serving.set_number(log_.open(peer));
}

void ServerImpl::report_end(RdmaPeer& peer) {
  const std::string address(peer.connection->peer_address());
  places_.remove(address);
  if (peer.has_long_receives) state_.long_receives.give_back(address);
  const rdma::Error cause = peer.connection->cause();
  const std::string_view why = peer.session->serving().why_ended();
  const bool has_given_up = peer.connection->engine().given_up() != engine::GivenUp::kNot;
  const bool in_order =
      why.empty() && !has_given_up && cause.code == rdma::Errc::kClosed && cause.provider_code == 0;
  Error error = rpc::to_error(cause, "the connection", address);
  if (!why.empty()) error.cause = why;
  TransferCounters counters;
  rpc::add(counters, *peer.connection);
  const bool was_reset_at_rest = peer.has_ended_at_rest && cause.provider_code == ECONNRESET;
  log_.end(address, peer.session->serving().number(), kRdma, in_order ? nullptr : &error,
           was_reset_at_rest, counters);
  rpc::add(ended_, *peer.connection);
  ended_.cached_replies += peer.session->serving().cached_replies();
  peer.session->caller().release();
  heap_.connection_ended(peers_.count<RdmaPeer>() - 1);
}

// Connections over other devices go on; those over a lost one end by themselves.
void ServerImpl::notice_failure() {
  const std::size_t failed = std::erase_if(listeners_, [this](const auto& listener) {
    const auto failure = listener->failure();
    if (!failure) return false;
    if (!failure_) {
      failure_ = rpc::to_error(*failure, "listening", listener->address(),
                               loop_.provider()->remedy(*failure));
    }
    return true;
  });
  if (failed > 0 && listeners_.empty()) state_.takes_step_ups = false;
}

std::uint32_t ServerImpl::share_of(std::size_t connections) const noexcept {
  const std::size_t share = options_.receives_max / std::max<std::size_t>(connections, 1);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(share, 1, engine_options_.credits));
}

// Gives each connection its share anew when connections have come or gone. A smaller share takes
// effect as replies go out.
void ServerImpl::share_receives() {
  if (options_.receives_max == 0) return;
  const std::uint32_t share = share_of(peers_.count<RdmaPeer>());
  if (std::exchange(share_, share) == share) return;
  peers_.for_each<RdmaPeer>([&](RdmaPeer& peer) {
    peer.connection->engine().responder().set_credits(share);
    peers_.want_turn(peer);
  });
}

ServerStatistics ServerImpl::statistics(bool with_connections) const {
  ServerStatistics sum;
  sum.memory_in_use = pool_.bytes_in_use();
  sum.memory_max = options_.memory_max;
  sum.calls_waiting_for_memory = memory_queue_.size();
  sum.counters = ended_;
  if (meter_ != nullptr) meter_->add_to(sum);
  peers_.for_each<RdmaPeer>([&sum, with_connections](const RdmaPeer& peer) {
    const engine::Connection& engine = peer.connection->engine();
    TransferCounters counters;
    rpc::add(counters, *peer.connection);
    counters.cached_replies = peer.serving().cached_replies();
    ++sum.rdma_connections;
    sum.calls_in_service += engine.responder().calls_in_service();
    sum.receives_posted += engine.receives_posted();
    sum.shares_receives = sum.shares_receives || peer.connection->shares_receives();
    sum.memory_registered += static_cast<std::size_t>(peer.connection->counters().attached_bytes);
    rpc::add(sum.counters, counters);
    if (!with_connections) return;
    ConnectionStatistics& one = sum.connections.emplace_back();
    one.peer = peer.connection->peer_address();
    one.is_rdma = true;
    one.protocol_version = engine.protocol_version();
    one.credits = engine.credits_granted();
    one.calls_in_service = engine.responder().calls_in_service();
    one.counters = counters;
    if (peer.serving().times() != nullptr) one.times = *peer.serving().times();
  });
  rpc::add(sum.counters, tcp_.counters());
  tcp_.add_to(sum, with_connections);
  return sum;
}

// --- Answers from other threads ----------------------------------------------------------------

void ServerImpl::deliver(rpc::IncomingCall& call) {
  answers_.deliver(call, [this] { loop_.wake(); });
}

Expected<Client, Error> ServerImpl::client_of(rpc::Session& session,
                                              const BackwardOptions& backward) {
  const auto unsupported = [&session](std::string cause) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "calling the client",
                                   std::string(session.connection().peer_address()),
                                   std::move(cause)});
  };
  if (options_.backward_calls == 0) return unsupported("ServerOptions::backward_calls is 0");
  if (session.caller().caller() != nullptr)
    return unsupported("there is a client for this connection already");
  const auto& said = session.connection().engine().option_port().characteristics().peer();
  if (said.backward == BackwardSupport::kNone) {
    return unsupported("it takes no calls (XCHAR_BRS NONE)");
  }
  ClientOptions options;
  options.calls_max = engine_options_.backward_calls;
  options.memory_max = std::min<std::size_t>(options_.memory_max, 16U << 20U);
  options.call_timeout = backward.call_timeout;
  if (backward.outlives_connection) {
    state_.homes.note(rpc::host_of(session.connection().peer_address()), inbox_);
  }
  return BackwardClient::over(session, *loop_.provider(), options, backward.outlives_connection);
}

// --- The end -----------------------------------------------------------------------------------

void ServerImpl::stop() noexcept {
  stop_requested_.store(true, std::memory_order_release);
  loop_.wake();
}

// Connections that are still busy are checked behind each of their turns.
void ServerImpl::drain() {
  const bool begins = !std::exchange(draining_, true);
  if (begins) {
    drain_deadline_ = time_.now() + rpc::limited(options_.drain_timeout);
    state_.takes_step_ups = false;
    listeners_.clear();
    tcp_.drain();
  }
  const bool was_over = std::exchange(drain_is_over_, time_.begun() >= drain_deadline_);
  if (!begins && was_over == drain_is_over_) return;
  if (drain_is_over_) tcp_.abort();
  peers_.for_each<RdmaPeer>([this](RdmaPeer& peer) {
    if (peer.session->idle() || drain_is_over_) peer.session->disconnect();
  });
}

bool ServerImpl::drained() const noexcept {
  if (!draining_) return failure_ && !listens() && log_.connections() == 0;
  return peers_.are_all_closing() || (drain_is_over_ && peers_.have_all_ended());
}

void ServerImpl::arm_timer() {
  Deadline next;
  if (draining_ && !drain_is_over_ && log_.connections() > 0) next = drain_deadline_;
  const auto no_later_than = [&next](Deadline when) {
    if (when && (!next || *when < *next)) next = when;
  };
  no_later_than(peers_.next_deadline());
  no_later_than(disconnected_.next_deadline());
  loop_.arm_timer(next);
}

}  // namespace rpcrdma
