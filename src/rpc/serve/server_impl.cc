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

ServerImpl::ServerImpl(std::unique_ptr<rdma::Provider> owned, rdma::Provider* provider,
                       const ServerOptions& options)
    : owned_provider_(std::move(owned)),
      loop_(provider),
      options_(options),
      engine_options_(rpc::engine_options(options_)),  // names what is in them
      configuration_(options_, engine_options_),
      pool_(options.memory_max),
      cache_(options.reply_cache_entries, options.reply_cache_bytes),
      tcp_({options_, pool_, registry_, cache_, log_, loop_, listeners_}) {
  if (options.connection.profile == Profile::kRfc5666) {
    const auto& procedure = oncrpc::kConfigureConnection;
    (void)registry_.add(procedure.program, procedure.version, configuration_);  // the first of all
  }
}

ServerImpl::~ServerImpl() {
  await_steps();
  while (!adrift_.empty()) adrift_.back()->handle_server_end();
  // While all is still there: their callbacks may use contexts, whose answers take the mailbox.
  for (const auto& [session, connection] : peers_) session->end_backward_calls();
  // Before the memory of their callers goes: where those have chunks it may be exposed still.
  for (const auto& [session, connection] : peers_) {
    if (session->has_caller() && connection->engine().link().chunks) session->disconnect();
  }
  for (const auto& [session, connection] : peers_) session->release_caller();
}

// What a step shows an authenticator stays until it has ended.
void ServerImpl::await_steps() {
  const auto are_left = [this] {
    return tcp_.steps() > 0 ||
           std::ranges::any_of(peers_, [](const Peer& peer) { return peer.session->steps() > 0; });
  };
  if (!are_left()) return;
  // No news of peers is to wake this loop again and again.
  for (const auto& [session, connection] : peers_) session->disconnect();
  tcp_.abort();
  while (are_left()) {
    loop_.wait();
    loop_.progress();
    answers_.take_all([](rpc::Session& session, engine::CallId call) { session.drop_step(call); });
    tcp_.drop_steps();
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
  note_address(real);
  return real;
}

Expected<std::string, Error> ServerImpl::listen_tcp(std::string_view address) {
  auto real = tcp_.listen(address);
  if (real) note_address(*real);
  return real;
}

void ServerImpl::note_address(std::string_view address) {
  if (address_.empty()) address_ = std::string(address);
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

Expected<Server, Error> ServerImpl::listen_on(rdma::Provider& provider, std::string_view address,
                                              const ServerOptions& options) {
  auto impl = std::make_unique<ServerImpl>(nullptr, &provider, options);
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

Expected<void, Error> ServerImpl::accept_flavor(AuthFlavor flavor, ServerAuth& auth) {
  if (registry_.accept_flavor(flavor, auth)) return {};
  return Unexpected<Error>(
      Error{Errc::kUnsupported, "accepting a flavor", address_,
            fmt::format("flavor {} is accepted already", static_cast<std::uint32_t>(flavor))});
}

Expected<void, Error> ServerImpl::serve_messages(MessageService& service) {
  if (registry_.rest() != nullptr) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "adding a service", address_,
                                   "there is a MessageService already"});
  }
  registry_.set_rest(&service);
  return {};
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
  RPCRDMA_ASSERT(current_server == nullptr, "a service must not call progress()");
  current_server = this;
  loop_.progress();
  const Instant now = loop_.now();
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
  if (sharers_ != peers_.size() && options_.receives_max > 0) loop_.wake();  // to share anew
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
  tcp_.progress(now);
  memory_wanted_at = std::max(memory_wanted_at, tcp_.memory_wanted_at());
  waits_for_a_duplicate = waits_for_a_duplicate || tcp_.waits_for_a_duplicate();
  // Memory that a later session gave back is seen by the earlier ones in another round.
  if (pool_.bytes_in_use() < memory_wanted_at) loop_.wake();
  if (waits_for_a_duplicate && cache_.ends() != ends) loop_.wake();
}

void ServerImpl::accept_connections() {
  for (const auto& listener : listeners_) {
    while (auto incoming = listener->poll_incoming()) accept(std::move(incoming));
  }
}

void ServerImpl::accept(std::unique_ptr<rdma::Incoming> incoming) {
  const std::string peer(incoming->peer_address());
  if (!log_.admit(peer)) return;  // refused by being destroyed
  engine::Options options = engine_options_;
  if (!incoming->sends_with_invalidate()) options.remote_invalidation = false;
  const auto data = rpc::set_up_data(options);
  auto queue_pair = loop_.provider()->accept(std::move(incoming), data);
  if (!queue_pair) {  // it went away meanwhile, for one
    return log_.refuse(peer, rpc::to_error(queue_pair.error(), "accepting", peer));
  }
  // Until its first reply a client makes one Call (RFC 8166 §3.3.3); its share comes at once.
  if (options_.receives_max > 0) options.credits_at_first = 1;
  auto connection =
      transport::Connection::create(std::move(*queue_pair), engine::Role::kServer, options);
  if (!connection) {
    return log_.refuse(peer, rpc::to_error(connection.error(), "accepting", peer));
  }
  using engine::Connection, engine::Role;
  auto session = std::make_unique<rpc::Session>(
      **connection, rpc::Session::Surroundings{pool_, registry_, regions_, cache_, *this},
      Connection::answered_slot_count(Role::kServer, engine_options_));
  peers_.push_back({std::move(session), std::move(*connection)});
  sharers_ = 0;  // another one may have gone meanwhile
  log_.open(peer);
}

void ServerImpl::handle_end(const Peer& peer) {
  const std::string address(peer.connection->peer_address());
  const rdma::Error cause = peer.connection->cause();
  const bool in_order = cause.code == rdma::Errc::kClosed && cause.provider_code == 0;
  const Error error = rpc::to_error(cause, "the connection", address);
  TransferCounters counters;
  rpc::add(counters, *peer.connection);
  log_.end(address, in_order ? nullptr : &error, counters);
}

// Connections over other devices go on; those over a lost one end by themselves.
void ServerImpl::notice_failure() {
  std::erase_if(listeners_, [this](const auto& listener) {
    const auto failure = listener->failure();
    if (!failure) return false;
    if (!failure_) {
      failure_ = rpc::to_error(*failure, "listening", listener->address(),
                               loop_.provider()->remedy(*failure));
    }
    return true;
  });
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
  answers_.deliver(session, call, [this] { loop_.wake(); });
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
  const auto& said = session.connection().engine().option_port().characteristics().peer();
  if (said.backward == BackwardSupport::kNone) {
    return unsupported("it takes no calls (XCHAR_BRS NONE)");
  }
  ClientOptions options;
  options.calls_max = engine_options_.backward_calls;
  options.memory_max = std::min<std::size_t>(options_.memory_max, 16U << 20U);
  options.call_timeout = backward.call_timeout;
  return BackwardClient::over(session, *loop_.provider(), options, backward.outlives_connection);
}

// --- The end -----------------------------------------------------------------------------------

void ServerImpl::stop() noexcept {
  stop_requested_.store(true, std::memory_order_release);
  loop_.wake();
}

void ServerImpl::drain(Instant now) {
  if (!draining_) {
    draining_ = true;
    drain_deadline_ = now + options_.drain_timeout;
    listeners_.clear();
    tcp_.drain();
  }
  drain_is_over_ = now >= drain_deadline_;
  if (drain_is_over_) tcp_.abort();
  for (const auto& [session, connection] : peers_) {
    if (session->idle() || drain_is_over_) session->disconnect();
  }
}

bool ServerImpl::drained() const noexcept {
  if (!draining_) return failure_ && !listens() && connections() == 0;
  if (peers_.empty() && tcp_.all_closing()) return true;
  const auto has_ended = [](const Peer& peer) { return peer.connection->ended(); };
  return drain_is_over_ && std::ranges::all_of(peers_, has_ended) && tcp_.all_ended();
}

void ServerImpl::remove_finished() {
  std::erase_if(peers_, [this](const Peer& peer) {
    if (!peer.session->finished()) return false;
    handle_end(peer);
    rpc::add(ended_, *peer.connection);
    ended_.cached_replies += peer.session->cached_replies();
    peer.session->release_caller();
    return true;
  });
}

void ServerImpl::arm_timer() {
  std::optional<Instant> next;
  if (draining_ && !drain_is_over_ && connections() > 0) next = drain_deadline_;
  const auto no_later_than = [&next](std::optional<Instant> when) {
    if (when && (!next || *when < *next)) next = when;
  };
  no_later_than(tcp_.next_deadline());
  for (const auto& [session, connection] : peers_) {
    no_later_than(connection->engine().poll_timeout());
  }
  for (const rpc::BackwardCaller* caller : adrift_) no_later_than(caller->next_deadline());
  loop_.arm_timer(next);
}

TransferCounters ServerImpl::counters() const noexcept {
  TransferCounters sum = ended_;
  for (const auto& [session, connection] : peers_) {
    rpc::add(sum, *connection);
    sum.cached_replies += session->cached_replies();
  }
  rpc::add(sum, tcp_.counters());
  return sum;
}

}  // namespace rpcrdma
