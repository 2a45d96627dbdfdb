#include "rpc/serve/server_impl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.h"
#include "oncrpc/configuration.h"
#include "rpc/call/backward_client.h"
#include "rpc/counters.h"
#include "rpc/engine_options.h"
#include "rpc/errors.h"

namespace rpcrdma {
namespace {

// The server whose progress() this thread is in, if any.
thread_local const ServerImpl* current_server = nullptr;

}  // namespace

ServerImpl::ServerImpl(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
                       const ServerOptions& options)
    : owned_provider_(std::move(owned)),
      provider_(provider),
      options_(options),
      engine_options_(rpc::engine_options(options)),
      configuration_(options_, engine_options_),
      pool_(options.memory_max),
      cache_(options.reply_cache_entries, options.reply_cache_bytes) {
  if (options.connection.profile == Profile::kRfc5666) {
    const auto& procedure = oncrpc::kConfigureConnection;
    (void)registry_.add(procedure.program, procedure.version, configuration_);  // the first of all
  }
}

ServerImpl::~ServerImpl() {
  while (!adrift_.empty()) adrift_.back()->handle_server_end();
  // While all is still there: their callbacks may use contexts, whose answers take the mailbox.
  for (const auto& [session, connection] : peers_) session->end_backward_calls();
  for (const auto& [session, connection] : peers_) session->release_caller();
}

Expected<void, Error> ServerImpl::listen(std::string_view address) {
  auto listener = provider_.listen(address);
  if (!listener) {
    return Unexpected<Error>(
        rpc::to_error(listener.error(), "listening", address, provider_.remedy(listener.error())));
  }
  listener_ = std::move(*listener);
  address_ = std::string(listener_->address());
  return {};
}

Expected<Server, Error> ServerImpl::listen_on(rdma::Provider& provider, std::string_view address,
                                              const ServerOptions& options) {
  auto impl = std::make_unique<ServerImpl>(nullptr, provider, options);
  if (auto listening = impl->listen(address); !listening) {
    return Unexpected<Error>(listening.error());
  }
  return Server(std::move(impl));
}

Expected<void, Error> ServerImpl::add(std::uint32_t program, std::uint32_t version,
                                      Service& service) {
  if (registry_.add(program, version, service)) return {};
  return Unexpected<Error>(
      Error{Errc::kUnsupported, "adding a service", address_,
            fmt::format("program {} version {} is served already", program, version)});
}

Expected<void, Error> ServerImpl::register_read_only(Bytes memory) {
  if (regions_.add(memory, nullptr)) return {};
  return Unexpected<Error>(Error{Errc::kUnsupported, "registering memory", address_,
                                 "it is empty, or overlaps memory that is registered already"});
}

Expected<void, Error> ServerImpl::adopt(int descriptor) {
  if (!listener_) {
    ::close(descriptor);
    if (failure_) return Unexpected<Error>(*failure_);
    return Unexpected<Error>(
        Error{Errc::kCanceled, "taking over a connection", address_, "the server is stopping"});
  }
  if (auto adopted = listener_->adopt(descriptor); !adopted) {
    return Unexpected<Error>(rpc::to_error(adopted.error(), "taking over a connection", address_));
  }
  return {};
}

void ServerImpl::progress() {
  RPCRDMA_ASSERT(current_server == nullptr, "a service must not call progress()");
  current_server = this;
  provider_.progress();
  const Instant now = provider_.now();
  accept_connections();
  notice_failure();
  share_receives();
  answers_.take_all([](rpc::Session& session, engine::CallId call) { session.answer(call); });
  serve_sessions(now);
  if (stop_requested_.load(std::memory_order_acquire)) {
    drain(now);
    serve_sessions(now);  // sees the end of the connections that drain() closed
  }
  remove_finished();
  tell_time_to_adrift(now);
  if (sharers_ != peers_.size() && options_.receives_max > 0) provider_.wake();  // to share anew
  arm_timer();
  current_server = nullptr;
}

void ServerImpl::serve_sessions(Instant now) {
  std::size_t memory_wanted_at = 0;  // in use when a session found that it was not enough
  bool waits_for_a_duplicate = false;
  const std::uint64_t ends = cache_.ends();
  for (const auto& [session, connection] : peers_) {
    in_turn_ = session.get();
    session->progress(now);
    in_turn_ = nullptr;
    waits_for_a_duplicate = waits_for_a_duplicate || session->waits_for_a_duplicate();
    if (session->waits_for_memory()) {
      memory_wanted_at = std::max(memory_wanted_at, pool_.bytes_in_use());
    }
  }
  // Memory that a later session gave back is seen by the earlier ones in another round.
  if (pool_.bytes_in_use() < memory_wanted_at) provider_.wake();
  if (waits_for_a_duplicate && cache_.ends() != ends) provider_.wake();
}

void ServerImpl::accept_connections() {
  while (listener_) {
    auto incoming = listener_->poll_incoming();
    if (!incoming) return;
    accept(std::move(incoming));
  }
}

void ServerImpl::accept(std::unique_ptr<rdma::Incoming> incoming) {
  const std::string peer(incoming->peer_address());
  if (peers_.size() >= options_.connections_max) {
    // Refused by being destroyed.
    return tell_refused(
        peer, {Errc::kNoResources, "accepting", peer,
               fmt::format("there are {} connections, as many as there may be", peers_.size())});
  }
  engine::Options options = engine_options_;
  if (!incoming->sends_with_invalidate()) options.remote_invalidation = false;
  const auto data = rpc::set_up_data(options);
  auto queue_pair = provider_.accept(std::move(incoming), data);
  if (!queue_pair) {  // it went away meanwhile, for one
    return tell_refused(peer, rpc::to_error(queue_pair.error(), "accepting", peer));
  }
  // Until its first reply a client makes one Call (RFC 8166 §3.3.3); its share comes at once.
  if (options_.receives_max > 0) options.credits_at_first = 1;
  auto connection =
      transport::Connection::create(std::move(*queue_pair), engine::Role::kServer, options);
  if (!connection) {
    return tell_refused(peer, rpc::to_error(connection.error(), "accepting", peer));
  }
  using engine::Connection, engine::Role;
  auto session = std::make_unique<rpc::Session>(
      **connection, rpc::Session::Surroundings{pool_, registry_, regions_, cache_, *this},
      Connection::answered_slot_count(Role::kServer, engine_options_));
  peers_.push_back({std::move(session), std::move(*connection)});
  sharers_ = 0;  // another one may have gone meanwhile
  if (!options_.on_connection) return;
  options_.on_connection(
      {.kind = ConnectionEvent::Kind::kOpened, .peer = peer, .connections = peers_.size()});
}

void ServerImpl::tell_refused(std::string_view peer, const Error& error) const {
  if (!options_.on_connection) return;
  options_.on_connection({.kind = ConnectionEvent::Kind::kRefused,
                          .peer = peer,
                          .error = &error,
                          .connections = peers_.size()});
}

void ServerImpl::tell_ended(const Peer& peer, std::size_t left) const {
  if (!options_.on_connection) return;
  const std::string address(peer.connection->peer_address());
  const rdma::Error cause = peer.connection->cause();
  const bool in_order = cause.code == rdma::Errc::kClosed && cause.provider_code == 0;
  const Error error = rpc::to_error(cause, "the connection", address);
  ConnectionEvent event{.kind = ConnectionEvent::Kind::kEnded,
                        .peer = address,
                        .error = in_order ? nullptr : &error,
                        .connections = left};
  rpc::add(event.counters, *peer.connection);
  options_.on_connection(event);
}

// Connections over other devices go on; those over a lost one end by themselves.
void ServerImpl::notice_failure() {
  if (!listener_) return;
  const auto failure = listener_->failure();
  if (!failure) return;
  failure_ = rpc::to_error(*failure, "listening", address_, provider_.remedy(*failure));
  listener_.reset();
}

std::uint32_t ServerImpl::share_of(std::size_t connections) const noexcept {
  const std::size_t share = options_.receives_max / std::max<std::size_t>(connections, 1);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(share, 1, engine_options_.credits));
}

// When connections have come or gone. A smaller share takes effect as replies go out.
void ServerImpl::share_receives() {
  if (options_.receives_max == 0 || sharers_ == peers_.size()) return;
  sharers_ = peers_.size();
  for (const auto& [session, connection] : peers_) {
    connection->engine().set_credits(share_of(sharers_));
  }
}

std::size_t ServerImpl::receives_posted() const noexcept {
  std::size_t sum = 0;
  for (const auto& [session, connection] : peers_) sum += connection->engine().receives_posted();
  return sum;
}

bool ServerImpl::shares_receives() const noexcept {
  return std::ranges::any_of(peers_,
                             [](const Peer& peer) { return peer.connection->shares_receives(); });
}

// --- Answers from other threads ----------------------------------------------------------------

bool ServerImpl::in_turn_of(const rpc::Session& session) const noexcept {
  return current_server == this && in_turn_ == &session;
}

void ServerImpl::deliver(rpc::Session& session, engine::CallId call) {
  answers_.deliver(session, call);
  provider_.wake();
}

void ServerImpl::set_adrift(rpc::BackwardCaller& caller, bool adrift) {
  std::erase(adrift_, &caller);
  if (adrift) adrift_.push_back(&caller);
}

// Their callbacks may end other clients.
void ServerImpl::tell_time_to_adrift(Instant now) {
  const auto is_due = [now](const rpc::BackwardCaller* caller) {
    const auto deadline = caller->next_deadline();
    return deadline && *deadline <= now;
  };
  for (;;) {
    const auto due = std::ranges::find_if(adrift_, is_due);
    if (due == adrift_.end()) return;
    (*due)->handle_time(now);
  }
}

Expected<Client, Error> ServerImpl::client_of(rpc::Session& session,
                                              const BackwardOptions& backward) {
  const auto unsupported = [&session](std::string cause) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "calling the client",
                                   std::string(session.connection().peer_address()),
                                   std::move(cause)});
  };
  if (options_.backward_calls == 0) return unsupported("ServerOptions::backward_calls is 0");
  if (session.has_caller()) return unsupported("there is a client for this connection already");
  ClientOptions options;
  options.calls_max = engine_options_.backward_calls;
  options.memory_max = std::min<std::size_t>(options_.memory_max, 16U << 20U);
  options.call_timeout = backward.call_timeout;
  return BackwardClient::over(session, provider_, options, backward.outlives_connection);
}

// --- The end -----------------------------------------------------------------------------------

void ServerImpl::stop() noexcept {
  stop_requested_.store(true, std::memory_order_release);
  provider_.wake();
}

void ServerImpl::drain(Instant now) {
  if (!draining_) {
    draining_ = true;
    drain_deadline_ = now + options_.drain_timeout;
    listener_.reset();
  }
  drain_is_over_ = now >= drain_deadline_;
  for (const auto& [session, connection] : peers_) {
    if (session->idle() || drain_is_over_) session->disconnect();
  }
}

bool ServerImpl::drained() const noexcept {
  if (!draining_) return failure_ && peers_.empty();
  return peers_.empty() || (drain_is_over_ && std::ranges::all_of(peers_, [](const Peer& peer) {
                              return peer.connection->ended();
                            }));
}

void ServerImpl::remove_finished() {
  std::size_t left = peers_.size();
  std::erase_if(peers_, [this, &left](const Peer& peer) {
    if (!peer.session->finished()) return false;
    tell_ended(peer, --left);
    rpc::add(ended_, *peer.connection);
    ended_.cached_replies += peer.session->cached_replies();
    peer.session->release_caller();
    return true;
  });
}

void ServerImpl::arm_timer() {
  std::optional<Instant> next;
  if (draining_ && !drain_is_over_ && !peers_.empty()) next = drain_deadline_;
  for (const auto& [session, connection] : peers_) {
    const auto timeout = connection->engine().poll_timeout();
    if (timeout && (!next || *timeout < *next)) next = timeout;
  }
  for (const rpc::BackwardCaller* caller : adrift_) {
    const auto deadline = caller->next_deadline();
    if (deadline && (!next || *deadline < *next)) next = deadline;
  }
  provider_.arm_timer(next);
}

TransferCounters ServerImpl::counters() const noexcept {
  TransferCounters sum = ended_;
  for (const auto& [session, connection] : peers_) {
    rpc::add(sum, *connection);
    sum.cached_replies += session->cached_replies();
  }
  return sum;
}

}  // namespace rpcrdma
