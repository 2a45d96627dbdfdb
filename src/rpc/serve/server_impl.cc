#include "rpc/serve/server_impl.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "rpc/call/backward_client.h"
#include "rpc/counters.h"
#include "rpc/engine_options.h"
#include "rpc/errors.h"
#include "rpc/terms.h"
#include "rpc/time_limit.h"

namespace rpcrdma {
namespace {

// The server whose progress() this thread is in, if any.
thread_local ServerImpl* current_server = nullptr;

constexpr auto kRdma = rpc::ConnectionLog::Transport::kRdma;

// What was admitted, and comes too late.
void drop(rpc::ConnectionLog& log, const rdma::Incoming& incoming) {
  const std::string peer(incoming.peer_address());
  log.drop(peer, kRdma, rpc::is_stopping(peer));
}

// Ends an idle connection of a host: of these the one over which fewest messages came. Returns
// whether there was one.
bool end_spare_of(const std::string& host, const rpc::PeerTable& peers) {
  const auto messages = [](const rpc::Peer& of) {
    return of.connection->engine().counters().messages_received;
  };
  const rpc::Peer* spare = nullptr;
  for (const auto& each : peers.all()) {
    const bool is_idle = each->session->idle() && each->connection->connected() &&
                         each->connection->engine().calls_in_flight() == 0;
    if (!is_idle || rpc::host_of(each->connection->peer_address()) != host) continue;
    if (spare == nullptr || messages(*each) < messages(*spare)) spare = each.get();
  }
  if (spare == nullptr) return false;
  spare->session->disconnect();
  return true;
}

// Reports that the set-up of a connection is complete. No message has shown the version yet.
void note_ready(rpc::ConnectionLog& log, std::string_view provider, rpc::Peer& peer) {
  peer.is_ready = true;
  const transport::Connection& connection = *peer.connection;
  constexpr std::uint32_t kVersionUnknown = 0;
  log.note_ready(connection.peer_address(), rpc::terms_of(connection, provider, kVersionUnknown,
                                                          connection.engine().credits_granted()));
}

}  // namespace

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
      tcp_({state, inbox_, pool_, loop_, *this}) {
  state_.inboxes.push_back(&inbox_);
}

ServerImpl* ServerImpl::current() noexcept {
  return current_server;
}

ServerImpl::~ServerImpl() {
  await_steps();
  adrift_.end_all();
  // While all is still there: their callbacks may use contexts, whose answers take the mailbox.
  for (const auto& peer : peers_.all()) peer->session->caller().end_calls();
  // Before the memory of their callers goes: where those have chunks it may be exposed still.
  for (const auto& peer : peers_.all()) {
    if (peer->session->caller().caller() != nullptr && peer->connection->engine().link().chunks) {
      peer->session->disconnect();
    }
  }
  for (const auto& peer : peers_.all()) peer->session->caller().release();
}

// What a step shows an authenticator stays until it has ended.
void ServerImpl::await_steps() {
  const auto are_left = [this] {
    return tcp_.steps() > 0 || std::ranges::any_of(peers_.all(), [](const auto& peer) {
             return peer->session->serving().steps() > 0;
           });
  };
  if (!are_left()) return;
  // No news of peers is to wake this loop again and again.
  for (const auto& peer : peers_.all()) peer->session->disconnect();
  tcp_.abort();
  while (are_left()) {
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
  current_server = this;
  loop_.progress();
  const Instant now = loop_.now();
  take_inbox(now);
  accept_connections();
  notice_failure();
  share_receives();
  answers_.take_all([](rpc::IncomingCall& call) { call.serving().handle_delivered(call); });
  serve_sessions(now);
  if (stop_requested_.load(std::memory_order_acquire)) {
    drain(now);
    serve_sessions(now);  // sees the end of the connections that drain() closed
  }
  adrift_.tell_time(now);
  share_receives();
  if (peers_.anybody_wants_turn()) loop_.wake();
  arm_timer();
  board_.answer([this] { return figures(); });
  current_server = nullptr;
}

void ServerImpl::take_inbox(Instant now) {
  rpc::ShardInbox::Items items = inbox_.take();
  if (items.empty()) [[likely]]
    return;
  for (auto& request : items.requests) accept(std::move(request));
  for (posix::Fd& socket : items.sockets) tcp_.accept(std::move(socket), now);
  for (posix::Fd& socket : items.stepping_up) {
    // When it fails, because there are too many, it has closed the connection.
    if (!listeners_.empty()) (void)listeners_.front()->adopt(socket.release());
  }
}

void ServerImpl::close_inbox() {
  rpc::ShardInbox::Items items = inbox_.close();
  for (auto& request : items.requests) drop(log_, *request);
  for (const posix::Fd& socket : items.sockets) tcp_.drop(socket);
}

void ServerImpl::serve_sessions(Instant now) {
  // What ends during the turns may have been asked for in one of them, and ended on another thread.
  const std::uint64_t ends = cache_.ends();
  retry_waiting();
  if (!peers_.anybody_waits()) ends_ = ends;
  const auto give_turn = [&](rpc::Peer& peer) {
    in_turn_ = peer.session.get();
    const engine::Connection& engine = peer.connection->engine();
    const bool was_at_rest = !peer.connection->ended() && peer.session->idle();
    const std::uint64_t calls_before = engine.counters().calls_ended;
    const bool is_done = peer.session->progress(now);
    if (was_at_rest && peer.connection->ended()) {
      peer.has_ended_at_rest =
          peer.session->idle() && engine.counters().calls_ended == calls_before;
    }
    in_turn_ = nullptr;
    return is_done;
  };
  peers_.serve(now, give_turn, [this, now](rpc::Peer& peer) {
    if (options_.idle_timeout.count() > 0)
      peer.end_if_idle(now, rpc::limited(options_.idle_timeout));
    return settle(peer);
  });
  tcp_.progress(now, in_turn_);
  // Something that one gave back may be what others wait for: in another round.
  retry_waiting();
  if (pool_.bytes_in_use() < tcp_.memory_wanted_at()) loop_.wake();
  if (tcp_.waits_for_a_duplicate() && cache_.ends() != ends) loop_.wake();
}

// Behind its turn. Whether it goes.
bool ServerImpl::settle(rpc::Peer& peer) {
  rpc::Session& session = *peer.session;
  if (!peer.is_ready && peer.connection->connected()) [[unlikely]] {
    note_ready(log_, loop_.provider()->name(), peer);
  }
  if (draining_ && (session.idle() || drain_is_over_)) session.disconnect();
  if (session.finished()) {
    remove(peer);
    return true;
  }
  if (session.serving().waits_for_a_duplicate()) peers_.wait(peer);
  return false;
}

// Gives turns to those that wait for the end of a call, if one has ended, and to the first that
// waits for memory, if there is more.
void ServerImpl::retry_waiting() {
  if (peers_.anybody_waits() && cache_.ends() != ends_) peers_.end_wait();
  if (!memory_queue_.is_worth_trying(pool_.bytes_in_use())) return;
  memory_queue_.first()->want_turn();
}

void ServerImpl::accept_connections() {
  for (const auto& listener : listeners_) {
    while (auto incoming = listener->poll_incoming()) {
      const std::string_view peer = incoming->peer_address();
      // The place of the other one is not free at once.
      const auto host = log_.is_full(kRdma) ? shares_.host_above(peer) : std::nullopt;
      const bool may_exceed =
          host && spare_pace_.may_take(loop_.now()) && end_spare_of(*host, peers_);
      if (!log_.admit(peer, kRdma, may_exceed)) continue;  // refused by being destroyed
      // To the shards in turn.
      rpc::ShardInbox& next = state_.deal_rdma(incoming->peer_address());
      if (&next == &inbox_ || stopping() || !incoming->leave()) {
        accept(std::move(incoming));
      } else if (!next.put(incoming)) {
        drop(log_, *incoming);
      }
    }
    if (const auto refusal = listener->poll_refusal()) [[unlikely]] {
      log_.refuse(fmt::format("a client of {}", listener->address()),
                  rpc::no_descriptor(*refusal, listener->address()));
    }
  }
}

// Precondition: it was admitted.
void ServerImpl::accept(std::unique_ptr<rdma::Incoming> incoming) {
  if (draining_) return drop(log_, *incoming);
  const std::string peer(incoming->peer_address());
  engine::Options options = engine_options_;
  if (!incoming->sends_with_invalidate()) options.remote_invalidation = false;
  const auto data = rpc::set_up_data(options);
  auto queue_pair = loop_.provider()->accept(std::move(incoming), data);
  if (!queue_pair) {  // it went away meanwhile, for one
    return log_.drop(peer, kRdma, rpc::to_error(queue_pair.error(), "accepting", peer));
  }
  // Until its first reply a client makes one Call (RFC 8166 §3.3.3); its share comes at once.
  if (options_.receives_max > 0) options.credits_at_first = 1;
  auto connection =
      transport::Connection::create(std::move(*queue_pair), engine::Role::kServer, options);
  if (!connection) {
    return log_.drop(peer, kRdma, rpc::to_error(connection.error(), "accepting", peer));
  }
  using engine::Connection, engine::Role;
  auto session = std::make_unique<rpc::Session>(
      **connection,
      rpc::Session::Surroundings{pool_, memory_queue_, state_.registry, regions_, cache_, *this},
      Connection::answered_slot_count(Role::kServer, engine_options_));
  if (options_.receives_max > 0) (*connection)->engine().set_credits(share_of(peers_.size() + 1));
  peers_.add(std::move(session), std::move(*connection));
  shares_.add(peer);
  log_.open(peer);
}

void ServerImpl::remove(rpc::Peer& peer) {
  const std::string address(peer.connection->peer_address());
  shares_.remove(address);
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
  log_.end(address, kRdma, in_order ? nullptr : &error, was_reset_at_rest, counters);
  rpc::add(ended_, *peer.connection);
  ended_.cached_replies += peer.session->serving().cached_replies();
  peer.session->caller().release();
  heap_.connection_ended(peers_.size() - 1);
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

// When connections have come or gone. A smaller share takes effect as replies go out.
void ServerImpl::share_receives() {
  if (options_.receives_max == 0) return;
  const std::uint32_t share = share_of(peers_.size());
  if (std::exchange(share_, share) == share) return;
  for (const auto& peer : peers_.all()) peer->connection->engine().set_credits(share);
  peers_.want_turns();
}

rpc::ShardFigures ServerImpl::figures() const {
  rpc::ShardFigures figures;
  figures.memory_in_use = pool_.bytes_in_use();
  figures.counters = ended_;
  for (const auto& peer : peers_.all()) {
    figures.receives_posted += peer->connection->engine().receives_posted();
    figures.shares_receives = figures.shares_receives || peer->connection->shares_receives();
    rpc::add(figures.counters, *peer->connection);
    figures.counters.cached_replies += peer->session->serving().cached_replies();
  }
  rpc::add(figures.counters, tcp_.counters());
  return figures;
}

// --- Answers from other threads ----------------------------------------------------------------

bool ServerImpl::in_turn_of(const rpc::ReplyCarrier& carrier) const noexcept {
  return current_server == this && in_turn_ == &carrier;
}

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

// Who is not idle yet is looked at behind its turns.
void ServerImpl::drain(Instant now) {
  const bool begins = !std::exchange(draining_, true);
  if (begins) {
    drain_deadline_ = now + rpc::limited(options_.drain_timeout);
    state_.takes_step_ups = false;
    listeners_.clear();
    tcp_.drain();
  }
  const bool was_over = std::exchange(drain_is_over_, now >= drain_deadline_);
  if (drain_is_over_) tcp_.abort();
  if (!begins && was_over == drain_is_over_) return;
  for (const auto& peer : peers_.all()) {
    if (peer->session->idle() || drain_is_over_) peer->session->disconnect();
  }
}

bool ServerImpl::drained() const noexcept {
  if (!draining_) return failure_ && !listens() && log_.connections() == 0;
  if (peers_.empty() && tcp_.all_closing()) return true;
  const auto has_ended = [](const auto& peer) { return peer->connection->ended(); };
  return drain_is_over_ && std::ranges::all_of(peers_.all(), has_ended) && tcp_.all_ended();
}

void ServerImpl::arm_timer() {
  std::optional<Instant> next;
  if (draining_ && !drain_is_over_ && log_.connections() > 0) next = drain_deadline_;
  const auto no_later_than = [&next](std::optional<Instant> when) {
    if (when && (!next || *when < *next)) next = when;
  };
  no_later_than(tcp_.next_deadline());
  no_later_than(peers_.next_deadline());
  no_later_than(adrift_.next_deadline());
  loop_.arm_timer(next);
}

}  // namespace rpcrdma
