#include "rpc/serve/tcp_server.h"

#include <algorithm>
#include <bit>
#include <system_error>
#include <utility>

#include "posix/address.h"
#include "rpc/counters.h"

namespace rpcrdma::rpc {
namespace {

constexpr int kAcceptsPerRound = 64;

Error to_error(const posix::SystemError& error, std::string_view operation, std::string_view peer,
               Errc code) {
  return {code, std::string(operation), std::string(peer),
          std::string(error.operation) + ": " + std::generic_category().message(error.code)};
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
      options_(within_bounds(surroundings.options)),
      memory_(surroundings.pool) {}

Expected<std::string, Error> TcpServer::listen(std::string_view address) {
  const auto parsed = posix::parse_address(address);
  if (!parsed) {
    return Unexpected<Error>(Error{Errc::kBadUrl, "listening", std::string(address),
                                   "it is no numeric address with a port"});
  }
  const auto reactor = shared_.loop.reactor();
  if (!reactor) return Unexpected<Error>(reactor.error());
  auto listener = tcp::Listener::open(**reactor, *parsed, shared_.options.share_port);
  if (!listener) {
    return Unexpected<Error>(to_error(listener.error(), "listening", address, Errc::kNoResources));
  }
  return std::string(listeners_.emplace_back(std::move(*listener))->address());
}

void TcpServer::progress() {
  waits_for_a_duplicate_ = false;
  memory_wanted_at_ = 0;
  if (listeners_.empty() && sessions_.empty()) return;
  accept_connections();
  answers_.take_all([](TcpSession& session, TcpCall& call) { session.answer(call); });
  bool has_more = false;
  for (const auto& session : sessions_) {
    session->progress();
    has_more = has_more || session->has_more();
    waits_for_a_duplicate_ = waits_for_a_duplicate_ || session->waits_for_a_duplicate();
    if (session->waits_for_memory()) {
      memory_wanted_at_ = std::max(memory_wanted_at_, shared_.pool.bytes_in_use());
    }
  }
  if (has_more) shared_.loop.wake();
  remove_finished();
}

void TcpServer::accept_connections() {
  for (const auto& listener : listeners_) {
    int left = kAcceptsPerRound;
    for (auto socket = listener->accept(); socket; socket = listener->accept()) {
      accept(std::move(*socket));
      if (--left == 0) {
        shared_.loop.wake();
        break;
      }
    }
  }
}

void TcpServer::accept(posix::Fd socket) {
  tcp::ConnectionOptions options;
  options.record = {options_.record_size_max, options_.fragments_max};
  options.messages_unsent_max = options_.calls_max;
  options.stall_timeout = shared_.options.peer_timeout;
  auto connection =
      tcp::Connection::open(**shared_.loop.reactor(), std::move(socket), memory_, options);
  if (!connection) {
    return shared_.log.refuse("",
                              to_error(connection.error(), "accepting", "", Errc::kNoResources));
  }
  const std::string peer((*connection)->peer_address());
  if (!shared_.log.admit(peer)) return;
  const TcpSession::Surroundings surroundings{shared_.pool, shared_.registry, shared_.cache, *this};
  sessions_.push_back(std::make_unique<TcpSession>(std::move(*connection), surroundings, options_));
  shared_.log.open(peer);
}

void TcpServer::remove_finished() {
  std::erase_if(sessions_, [this](const auto& session) {
    if (!session->finished()) return false;
    const auto failure = session->failure();
    shared_.log.end(session->peer_address(), failure ? &*failure : nullptr, session->counters());
    add(ended_, session->counters());
    return true;
  });
}

std::uint32_t TcpServer::steps() const noexcept {
  std::uint32_t sum = 0;
  for (const auto& session : sessions_) sum += session->steps();
  return sum;
}

void TcpServer::deliver(TcpSession& session, TcpCall& call) {
  answers_.deliver(session, call);
  shared_.loop.wake();
}

void TcpServer::drain() {
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
