#include "rpc/serve/tcp_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <utility>

#include "posix/address.h"
#include "rpc/counters.h"
#include "rpc/errors.h"
#include "rpc/time_limit.h"

namespace rpcrdma::rpc {
namespace {

constexpr int kAcceptsPerRound = 64;

constexpr auto kTcp = ConnectionLog::Transport::kTcp;

Error to_error(const posix::SystemError& error, std::string_view operation, std::string_view peer,
               Errc code) {
  std::string cause =
      std::string(error.operation) + ": " + std::generic_category().message(error.code);
  if (error.code == EADDRINUSE && posix::is_local_path(peer)) {
    cause +=
        "; there is a file of this name: remove it if its server is gone, or choose another path";
  } else if (error.code == EADDRINUSE) {
    cause = address_in_use(error.operation);
  }
  return {code, std::string(operation), std::string(peer), std::move(cause)};
}

TcpOptions within_bounds(const ServerOptions& options) {
  TcpOptions bounded = options.tcp;
  bounded.calls_max = std::clamp(bounded.calls_max, 1U, 4096U);
  const tcp::RecordLimits limits = record_limits(options.tcp, options.memory_max);
  bounded.record_size_max = limits.size_max;
  bounded.fragments_max = limits.fragments_max;
  return bounded;
}

}  // namespace

TcpServer::TcpServer(const Surroundings& surroundings)
    : shared_(surroundings),
      log_(surroundings.state.log),
      options_(within_bounds(surroundings.state.options)),
      memory_(surroundings.pool) {}

Expected<std::string, Error> TcpServer::listen(std::string_view address) {
  const auto parsed = posix::parse_stream_address(address);
  if (!parsed) {
    return Unexpected<Error>(Error{Errc::kBadUrl, "listening", std::string(address),
                                   "it is no numeric address with a port, and no path"});
  }
  if (shared_.state.options.share_port && parsed->family() == AF_UNIX) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "listening", std::string(address),
                                   "ServerOptions::share_port is for ports; only one server can "
                                   "listen at a path"});
  }
  const auto reactor = shared_.loop.reactor();
  if (!reactor) return Unexpected<Error>(reactor.error());
  auto listener = tcp::Listener::open(**reactor, *parsed, shared_.state.options.share_port);
  if (!listener) {
    return Unexpected<Error>(to_error(listener.error(), "listening", address, Errc::kNoResources));
  }
  return std::string(listeners_.emplace_back(std::move(*listener))->address());
}

void TcpServer::progress(Instant now, const ReplyCarrier*& in_turn) {
  waits_for_a_duplicate_ = false;
  memory_wanted_at_ = 0;
  next_deadline_.reset();
  if (listeners_.empty() && sessions_.empty()) return;
  accept_connections(now);
  bool has_more = false;
  for (const auto& session : sessions_) {
    in_turn = session.get();
    session->progress(now);
    in_turn = nullptr;
    end_if_idle(*session, now);
    if (auto socket = session->take_socket()) stepping_up_.push_back(std::move(*socket));
    has_more = has_more || session->has_more();
    waits_for_a_duplicate_ = waits_for_a_duplicate_ || session->serving().waits_for_a_duplicate();
    if (session->waits_for_memory()) {
      memory_wanted_at_ = std::max(memory_wanted_at_, shared_.pool.bytes_in_use());
    }
  }
  if (has_more) shared_.loop.wake();
  remove_finished();
  step_up();
}

// When they do not count as TCP connections any more.
void TcpServer::step_up() {
  for (posix::Fd& socket : stepping_up_) {
    // The first shard refuses it by closing it.
    if (shared_.state.takes_step_ups) (void)shared_.state.inboxes.front()->step_up(socket);
  }
  stepping_up_.clear();
}

void TcpServer::accept_connections(Instant now) {
  for (const auto& listener : listeners_) {
    int left = kAcceptsPerRound;
    for (auto socket = listener->accept(); socket; socket = listener->accept()) {
      deal(std::move(*socket), now);
      if (--left == 0) {
        shared_.loop.wake();
        break;
      }
    }
  }
}

// To the shards in turn.
void TcpServer::deal(posix::Fd socket, Instant now) {
  const std::string peer = tcp::Connection::peer_of(socket.value());
  ShardInbox& next = shared_.state.deal_tcp();
  const bool is_own = &next == &shared_.inbox;
  // In this order: who makes room does not count any more.
  if (const auto obstacle = is_own ? make_room(peer, now) : std::nullopt) {
    return log_.refuse(peer, *obstacle);
  }
  if (!log_.admit(peer, kTcp)) return;
  if (is_own) return open(std::move(socket), now);
  if (!next.put(socket)) log_.drop(peer, kTcp, is_stopping(peer));
}

void TcpServer::accept(posix::Fd socket, Instant now) {
  const std::string peer = tcp::Connection::peer_of(socket.value());
  if (draining_) return log_.drop(peer, kTcp, is_stopping(peer));
  if (const auto obstacle = make_room(peer, now)) return log_.drop(peer, kTcp, *obstacle);
  open(std::move(socket), now);
}

void TcpServer::drop(const posix::Fd& socket) {
  const std::string peer = tcp::Connection::peer_of(socket.value());
  log_.drop(peer, kTcp, is_stopping(peer));
}

// It was admitted, and there is room.
void TcpServer::open(posix::Fd socket, Instant now) {
  tcp::ConnectionOptions options;
  options.record = {options_.record_size_max, options_.fragments_max, true};
  options.messages_unsent_max = options_.calls_max;
  options.stall_timeout = rpc::limited(shared_.state.options.peer_timeout);
  options.record_timeout = rpc::limited(shared_.state.options.pull_timeout);
  options.record_rate_min = shared_.state.options.pull_rate_min;
  auto connection =
      tcp::Connection::open(**shared_.loop.reactor(), std::move(socket), memory_, options);
  if (!connection) {
    return log_.drop("", kTcp, to_error(connection.error(), "accepting", "", Errc::kNoResources));
  }
  const std::string peer((*connection)->peer_address());
  const TcpSession::Surroundings surroundings{shared_.pool, shared_.state.registry,
                                              shared_.state.cache, shared_.mailbox,
                                              shared_.state.takes_step_ups};
  sessions_.push_back(
      std::make_unique<TcpSession>(std::move(*connection), surroundings, options_, now));
  shares_.add(peer);
  log_.open(peer);
}

// A client that has made calls, and takes their replies, keeps its connection: there may be a mount
// behind it. Silent ones, and those that leave their replies, make room; and then idle ones of a
// host that has more than its share, whose mounts connect again. nullopt: there is room for one
// more.
std::optional<Error> TcpServer::make_room(std::string_view peer, Instant now) {
  if (options_.connections_max == 0 || sessions_.size() < options_.connections_max) {
    return std::nullopt;
  }
  TcpSession* oldest = nullptr;
  for (const auto& session : sessions_) {
    if (!session->may_make_room(now)) continue;
    if (oldest == nullptr || session->last_call() < oldest->last_call()) oldest = session.get();
  }
  if (oldest == nullptr) oldest = spare_for(peer, now);
  if (oldest == nullptr) {
    return Error{
        Errc::kNoResources, "accepting", std::string(peer),
        fmt::format("there are {} connections over TCP (TcpOptions::connections_max), and all are "
                    "in use",
                    sessions_.size())};
  }
  oldest->make_room();
  remove_finished();
  return std::nullopt;
}

// Returns the connection that was idle longest of the host that has to leave one; null: there is
// none.
TcpSession* TcpServer::spare_for(std::string_view peer, Instant now) {
  const auto host = shares_.host_above(peer);
  if (!host || !spare_pace_.may_take(now)) return nullptr;
  TcpSession* spare = nullptr;
  for (const auto& session : sessions_) {
    if (!session->idle_since() || host_of(session->peer_address()) != *host) continue;
    if (spare == nullptr || session->last_call() < spare->last_call()) spare = session.get();
  }
  return spare != nullptr && spare->is_peer_quiet() ? spare : nullptr;
}

void TcpServer::end_if_idle(TcpSession& session, Instant now) {
  if (options_.idle_timeout.count() == 0) return;
  const auto since = session.idle_since();
  if (!since) return;
  const Instant deadline = *since + rpc::limited(options_.idle_timeout);
  if (deadline <= now) return session.end_idle();
  if (!next_deadline_ || deadline < *next_deadline_) next_deadline_ = deadline;
}

void TcpServer::remove_finished() {
  std::erase_if(sessions_, [this](const auto& session) {
    if (!session->finished()) return false;
    bool was_reset_at_rest = false;
    const auto failure = session->failure(was_reset_at_rest);
    log_.end(session->peer_address(), kTcp, failure ? &*failure : nullptr, was_reset_at_rest,
             session->counters());
    add(ended_, session->counters());
    shares_.remove(session->peer_address());
    return true;
  });
}

std::uint32_t TcpServer::steps() const noexcept {
  std::uint32_t sum = 0;
  for (const auto& session : sessions_) sum += session->serving().steps();
  return sum;
}

void TcpServer::drain() {
  draining_ = true;
  listeners_.clear();
  for (const auto& session : sessions_) session->drain();
}

void TcpServer::abort() {
  for (const auto& session : sessions_) session->abort();
}

bool TcpServer::all_ended() const noexcept {
  return std::ranges::all_of(sessions_, [](const auto& session) { return session->ended(); });
}

bool TcpServer::all_closing() const noexcept {
  return std::ranges::all_of(sessions_, [](const auto& session) { return session->closing(); });
}

TransferCounters TcpServer::counters() const noexcept {
  TransferCounters sum = ended_;
  for (const auto& session : sessions_) add(sum, session->counters());
  return sum;
}

}  // namespace rpcrdma::rpc
