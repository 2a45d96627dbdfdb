#include "rpc/serve/tcp_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <utility>

#include "posix/accept.h"
#include "posix/address.h"
#include "rpc/counters.h"
#include "rpc/errors.h"
#include "rpc/record_limits.h"
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

// --- Link --------------------------------------------------------------------------------------

class TcpServer::Link final : public Peer, public tcp::NewsListener {
 public:
  static constexpr auto kTransport = Transport::kTcp;

  Link(TcpServer& server, std::unique_ptr<TcpSession> of_peer)
      : Peer(server.shared_.peers, kTransport, of_peer->serving()),
        session(std::move(of_peer)),
        server_(server) {
    session->set_listener(*this);
  }
  void handle_news() noexcept override { Peer::handle_news(); }
  bool take_turn(RoundTime& time) override { return session->progress(time); }
  State settle(const RoundTime& time) override { return server_.settle(*this, time); }
  Deadline next_deadline() const override { return server_.idle_deadline(*session); }

  const std::unique_ptr<TcpSession> session;

 private:
  TcpServer& server_;
};

// --- TcpServer ---------------------------------------------------------------------------------

TcpServer::TcpServer(const Surroundings& surroundings)
    : shared_(surroundings),
      log_(surroundings.state.log),
      options_(within_bounds(surroundings.state.options)),
      memory_(surroundings.pool, surroundings.state.options.memory_max, options_.record_size_max) {}

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

Expected<std::string, Error> TcpServer::listen(posix::Fd socket) {
  const std::string name = "descriptor " + std::to_string(socket.value());
  const auto reactor = shared_.loop.reactor();
  if (!reactor) return Unexpected<Error>(reactor.error());
  auto listener = tcp::Listener::take_over(**reactor, std::move(socket));
  if (!listener) {
    return Unexpected<Error>(to_error(listener.error(), "listening", name, Errc::kUnsupported));
  }
  return std::string(listeners_.emplace_back(std::move(*listener))->address());
}

bool TcpServer::accept_connections(Instant now) {
  bool is_lacking = false;
  // By number: a service that has its turn when there is no room may add a listener.
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    tcp::Listener& listener = *listeners_[i];
    int left = kAcceptsPerRound;
    for (auto socket = listener.accept(); socket; socket = listener.accept()) {
      deal(std::move(*socket), now);
      if (--left == 0) {
        shared_.loop.wake();
        break;
      }
    }
    if (const auto code = listener.poll_failure()) [[unlikely]] {
      log_.refuse(fmt::format("a client of {}", listener.address()),
                  not_accepted({rdma::Errc::kNoResources, *code, "accept"}, listener.address()));
      is_lacking = is_lacking || posix::is_about_resources(*code);
    }
  }
  return is_lacking;
}

// Deals a connection to the shards in turn.
void TcpServer::deal(tcp::Accepted accepted, Instant now) {
  const std::string& peer = accepted.peer;
  ShardInbox& next = shared_.state.deal_tcp();
  const bool is_own = &next == &shared_.inbox;
  // The connection that makes room must not count any more when the next one is admitted.
  if (const auto obstacle = is_own ? make_room(peer, now) : std::nullopt) {
    return log_.refuse(peer, *obstacle);
  }
  if (!log_.admit(peer, kTcp)) return;
  if (is_own) return open(std::move(accepted));
  if (!next.put(accepted)) log_.drop(peer, kTcp, is_stopping(peer));
}

void TcpServer::accept(tcp::Accepted accepted, Instant now) {
  const std::string& peer = accepted.peer;
  if (draining_) return log_.drop(peer, kTcp, is_stopping(peer));
  if (const auto obstacle = make_room(peer, now)) return log_.drop(peer, kTcp, *obstacle);
  open(std::move(accepted));
}

void TcpServer::drop(const tcp::Accepted& accepted) {
  log_.drop(accepted.peer, kTcp, is_stopping(accepted.peer));
}

// Opens a connection that was admitted, and for which there is room.
void TcpServer::open(tcp::Accepted accepted) {
  tcp::ConnectionOptions options;
  options.record = {options_.record_size_max, options_.fragments_max, tcp::Excess::kCutCalls};
  options.messages_unsent_max = options_.calls_max;
  options.stall_timeout = rpc::limited(shared_.state.options.peer_timeout);
  options.send_timeout = options.stall_timeout;
  options.record_timeout = rpc::limited(shared_.state.options.pull_timeout);
  options.record_rate_min = shared_.state.options.pull_rate_min;
  const std::string peer = accepted.peer;
  auto memory = std::make_unique<RecordMemory::Share>(memory_, shared_.host_memory, peer);
  auto connection =
      tcp::Connection::open(**shared_.loop.reactor(), std::move(accepted), *memory, options);
  if (!connection) {
    return log_.drop(peer, kTcp,
                     to_error(connection.error(), "accepting", peer, Errc::kNoResources));
  }
  const TcpSession::Surroundings surroundings{shared_.pool,
                                              shared_.state.registry,
                                              shared_.state.cache,
                                              shared_.mailbox,
                                              shared_.state.takes_step_ups,
                                              shared_.meter,
                                              shared_.state.options.tap};
  auto session = std::make_unique<TcpSession>(std::move(memory), std::move(*connection),
                                              surroundings, options_, shared_.time.now());
  Serving& serving = session->serving();
  shared_.peers.add(std::make_unique<Link>(*this, std::move(session)));
  shares_.add(peer);
  serving.set_number(log_.open(peer));
}

// Returns the connection without a call for longest of those for which this is true; null if there
// is none.
template <class Is>
TcpServer::Link* TcpServer::oldest_of(Is&& is) const {
  Link* oldest = nullptr;
  shared_.peers.for_each<Link>([&](Link& link) {
    const TcpSession& session = *link.session;
    if (!is(session)) return;
    if (oldest == nullptr || session.last_call() < oldest->session->last_call()) oldest = &link;
  });
  return oldest;
}

// Returns nullopt if there is room for one more.
std::optional<Error> TcpServer::make_room(std::string_view peer, Instant now) {
  const std::size_t count = shared_.peers.count<Link>();
  if (options_.connections_max == 0 || count < options_.connections_max) return std::nullopt;
  shared_.peers.serve_before_judging(shared_.time);
  if (shared_.peers.count<Link>() < options_.connections_max) return std::nullopt;
  if (end_spare(peer, now)) return std::nullopt;
  return Error{Errc::kNoResources, "accepting", std::string(peer),
               fmt::format("its thread has {} connections over TCP, as many as it may have "
                           "(TcpOptions::connections_max), and all are in use",
                           count)};
}

// A client that has made calls, and takes their replies, keeps its connection: there may be a mount
// behind it. Silent ones, and those that leave their replies, make room; and then idle ones of a
// host that has more than its share, whose mounts connect again.
bool TcpServer::end_spare(std::string_view peer, Instant now) {
  Link* leaves = oldest_of([&](const TcpSession& each) {
    return each.may_make_room(now, shared_.state.options.pull_rate_min);
  });
  if (leaves == nullptr) leaves = spare_for(peer, now);
  if (leaves == nullptr) return false;
  leaves->session->make_room();
  shared_.peers.settle(*leaves, shared_.time);
  return true;
}

// Returns the connection that was idle longest of the host that has to leave one, or one of its
// that waits for the rest of a record: with a byte of one on each, a host would keep all. Null:
// there is none.
TcpServer::Link* TcpServer::spare_for(std::string_view peer, Instant now) {
  const auto host = shares_.host_above(peer);
  if (!host || !spare_pace_.may_take(now)) return nullptr;
  const auto is_of_host = [&host](const TcpSession& each) {
    return host_of(each.peer_address()) == *host;
  };
  Link* const idle =
      oldest_of([&](const TcpSession& each) { return each.idle_since() && is_of_host(each); });
  if (idle != nullptr && idle->session->look_at_peer() != tcp::PeerState::kTalks) return idle;
  const std::uint32_t rate = shared_.state.options.pull_rate_min;
  return oldest_of([&](const TcpSession& each) {
    return each.is_left_in_record(now, rate) && is_of_host(each);
  });
}

// --- Turns -------------------------------------------------------------------------------------

Deadline TcpServer::idle_deadline(const TcpSession& session) const noexcept {
  if (options_.idle_timeout.count() == 0) return std::nullopt;
  const auto since = session.idle_since();
  return since ? std::optional(*since + rpc::limited(options_.idle_timeout)) : std::nullopt;
}

Peer::State TcpServer::settle(Link& link, const RoundTime& time) {
  TcpSession& session = *link.session;
  const auto deadline = idle_deadline(session);
  if (deadline && *deadline <= time.begun()) session.end_idle();
  session.settle_waiting();
  if (!session.finished()) {
    if (session.ended()) return Peer::State::kEnded;
    return session.closing() ? Peer::State::kClosing : Peer::State::kOpen;
  }
  report_end(session);
  // It does not count as a TCP connection any more. The first shard refuses it by closing it.
  auto socket = session.take_socket();
  if (socket && shared_.state.takes_step_ups) {
    (void)shared_.state.inboxes.front()->step_up(*socket);
  }
  return Peer::State::kFinished;
}

void TcpServer::report_end(TcpSession& session) {
  bool was_reset_at_rest = false;
  const auto failure = session.failure(was_reset_at_rest);
  if (session.tap().is_on()) {
    session.tap().end(session.peer_address(), failure ? failure->cause : std::string());
  }
  log_.end(session.peer_address(), session.serving().number(), kTcp, failure ? &*failure : nullptr,
           was_reset_at_rest, session.counters());
  add(ended_, session.counters());
  shares_.remove(session.peer_address());
}

// --- The end -----------------------------------------------------------------------------------

void TcpServer::drain() {
  draining_ = true;
  listeners_.clear();
  shared_.peers.for_each<Link>([this](Link& link) {
    link.session->drain();
    shared_.peers.want_turn(link);
  });
}

void TcpServer::abort() {
  shared_.peers.for_each<Link>([this](Link& link) {
    link.session->abort();
    shared_.peers.want_turn(link);
  });
}

void TcpServer::add_to(ServerStatistics& sum, bool with_connections) const {
  shared_.peers.for_each<Link>([&](const Link& link) {
    const TcpSession& session = *link.session;
    ++sum.tcp_connections;
    sum.calls_in_service += session.calls_in_service();
    if (!with_connections) return;
    ConnectionStatistics& one = sum.connections.emplace_back();
    one.peer = session.peer_address();
    one.credits = options_.calls_max;
    one.calls_in_service = session.calls_in_service();
    one.counters = session.counters();
    if (session.serving().times() != nullptr) one.times = *session.serving().times();
  });
}

TransferCounters TcpServer::counters() const {
  TransferCounters sum = ended_;
  shared_.peers.for_each<Link>([&sum](const Link& link) { add(sum, link.session->counters()); });
  return sum;
}

}  // namespace rpcrdma::rpc
