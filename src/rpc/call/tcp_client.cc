#include "rpc/call/tcp_client.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "posix/address.h"
#include "rpc/call/tcp_errors.h"

namespace rpcrdma {

Expected<std::unique_ptr<TcpClient>, Error> TcpClient::begin_connect(
    std::vector<std::string> addresses, std::unique_ptr<rpc::AddressFinder> finder,
    const ClientOptions& options) {
  const std::string& address = addresses.front();
  if (options.backward_calls > 0) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "connecting", address,
                                   "ClientOptions::backward_calls is for rdma:// only"});
  }
  auto reactor = posix::Reactor::make();
  if (!reactor) return Unexpected<Error>(rpc::tcp_failure("connecting", address, reactor.error()));
  std::unique_ptr<TcpClient> client(new TcpClient(std::move(*reactor), options));
  if (auto begun = client->connector_.begin(std::move(addresses), std::move(finder)); !begun) {
    return Unexpected<Error>(std::move(begun.error()));
  }
  client->reactor_->arm();
  if (client->connector_.next_attempt()) client->reactor_->wake();  // to wait for its time
  return client;
}

TcpClient::TcpClient(std::unique_ptr<posix::Reactor> reactor, const ClientOptions& options)
    : ClientImpl(
          options,
          {std::max(options.calls_max, 1U), false, rpc::Connector::keeps_calls(options), false},
          [] { return posix::Reactor::now(); }, [at = reactor.get()] { at->wake(); }),
      reactor_(std::move(reactor)),
      carrier_(*reactor_, flow_),
      connector_(flow_, *this, options.reconnect) {
  flow_.set_carrier(carrier_);
}

TcpClient::~TcpClient() {
  RPCRDMA_REQUIRE(!flow_.in_round(), "a client is destroyed inside of one of its callbacks");
  close();
  pump();                                // the calls under way end
  while (flow_.calls_in_flight() > 0) {  // those whose steps go on elsewhere
    wait();
    progress();
  }
  // Blocking calls that an exception has left.
  for (rpc::CallSlot& slot : flow_.calls()) {
    if (slot.state != rpc::CallState::kFree) flow_.free(flow_.calls().index_of(slot));
  }
}

Expected<void, Error> TcpClient::begin(const std::string& address) {
  const auto parsed = posix::parse_stream_address(address);
  if (!parsed) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "connecting", address,
                                   "it is no numeric address with a port, and no path"});
  }
  const auto begun = carrier_.connect(*parsed, address);
  if (begun) return {};
  return Unexpected<Error>(rpc::tcp_failure("connecting", address, begun.error()));
}

Expected<void, Error> TcpClient::await_connection() {
  for (progress(); !connected(); progress()) {
    if (ended()) {
      const auto end = carrier_.cause();
      Error error = flow_.lost_error();
      error.operation = "connecting";
      error.code = Errc::kUnreachable;
      if (end && end->code == ECONNREFUSED) error.code = Errc::kRefused;
      if (end && end->kind == tcp::EndKind::kStalled) error.code = Errc::kTimedOut;
      return Unexpected<Error>(std::move(error));
    }
    wait();
  }
  return {};
}

void TcpClient::close() noexcept {
  flow_.close();
  carrier_.abort();
  reactor_->wake();  // the calls under way end in the next progress()
}

void TcpClient::progress() {
  RPCRDMA_REQUIRE(!flow_.in_round(), "a callback must not call progress(), call() or drain()");
  reactor_->dispatch();
  has_looked_ = true;
  pump();
}

void TcpClient::pump() noexcept {
  const Instant now = posix::Reactor::now();
  if (std::exchange(has_looked_, false)) looked_ = now;
  flow_.round().begin(now);
  flow_.take_steps();
  carrier_.pump(looked_);
  if (connector_.enabled()) connector_.maintain(connected());
  flow_.round().end();
  auto deadline = earlier(carrier_.next_deadline(), flow_.next_deadline());
  deadline = earlier(deadline, connector_.next_attempt());
  reactor_->set_user_timer(deadline);
  reactor_->arm();
}

Expected<int, Error> TcpClient::give_up_socket() {
  RPCRDMA_REQUIRE(!flow_.in_round(), "a callback must not step up");
  const auto refused = [this](std::string cause) {
    return Unexpected<Error>(unsupported("stepping up", std::move(cause)));
  };
  if (carrier_.is_local()) return refused("there is no RDMA over a Unix socket");
  if (!connected()) return Unexpected<Error>(flow_.lost_error());
  if (flow_.calls_in_flight() > 0) {
    return refused("calls are under way; wait for their replies first");
  }
  auto socket = carrier_.release();
  if (!socket) return refused("the server has sent something behind its answers");
  return socket->release();
}

// --- RDMA alone has these ----------------------------------------------------------------------

Expected<void, Error> TcpClient::serve(std::uint32_t /*program*/, std::uint32_t /*version*/,
                                       Service& /*service*/) {
  return Unexpected<Error>(
      unsupported("serving calls of the server", "it needs an rdma:// connection"));
}

Expected<RegisteredMemory, Error> TcpClient::register_memory(Bytes /*memory*/,
                                                             std::byte* /*writable*/) {
  return Unexpected<Error>(unsupported("registering memory", "over TCP it would gain nothing"));
}

}  // namespace rpcrdma
