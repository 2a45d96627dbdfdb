#include "server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <rpc/rpc_com.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "settings.h"

namespace rpcrdma::tirpc {

namespace {

// Calls that one turn of the program's loop serves at most by lingering.
constexpr std::uint64_t kLingeredMax = 64;
// The soft limit of descriptors that the adapter asks for.
constexpr rlim_t kDescriptorsWanted = 65'536;

// Never destroyed: a daemon's parent ends by exit(), and must leave alone what its child goes on
// with.
std::unique_ptr<RdmaServer>& process_server() {
  static auto& made = *new std::unique_ptr<RdmaServer>;
  return made;
}

// Before libtirpc looks at the limit, which it does once.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kDescriptorsWanted);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// A connection takes three descriptors; peers must not get those that the program itself needs, nor
// those of its other transports.
std::size_t connections_max() noexcept {
  constexpr rlim_t kPerConnection = 3, kOwnMax = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return settings().connections_max;
  const rlim_t rest = limit.rlim_cur - std::min(limit.rlim_cur / 4, kOwnMax);
  return std::clamp<std::size_t>(rest / kPerConnection, 1, settings().connections_max);
}

bool_t refuse_arguments(SVCXPRT*, xdrproc_t, void*) {
  return FALSE;
}

}  // namespace

RdmaServer* RdmaServer::current() noexcept {
  return process_server().get();
}

Expected<RdmaServer*, Error> RdmaServer::listen(const std::string& url) {
  std::unique_ptr<RdmaServer>& slot = process_server();
  if (slot) {
    if (auto opened = slot->open(url); !opened) return Unexpected<Error>(opened.error());
    return slot.get();
  }
  raise_descriptor_limit();
  std::unique_ptr<RdmaServer> made(new RdmaServer);
  if (auto opened = made->open(url); !opened) return Unexpected<Error>(opened.error());
  slot = std::move(made);
  return slot.get();
}

RdmaServer::RdmaServer() : MessageService(settings().call_max), transport_(this) {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] {
    if (RdmaServer* const server = current()) server->handle_fork();
  });
  (void)watched;
}

// Connections fail the calls that nobody has answered, for which the server has to be there.
RdmaServer::~RdmaServer() {
  lost_.clear();
  connections_.clear();
}

Expected<void, Error> RdmaServer::open(const std::string& url) {
  if (server_) {
    auto added = server_->add_listener(url);
    if (!added) return Unexpected<Error>(added.error());
    addresses_.push_back(std::move(*added));
    // The server may wait on another descriptor now; libtirpc's number for it stays.
    if (::dup3(server_->wait_fd(), transport_.descriptor(), O_CLOEXEC) < 0) {
      return Unexpected<Error>(Error{Errc::kNoResources, "listening", url, std::strerror(errno)});
    }
    return {};
  }
  ServerOptions options;
  options.provider = settings().provider;
  options.bulk_size_max = options.long_call_size_max = settings().call_max;
  options.memory_max = settings().memory_max;
  options.connections_max = connections_max();
  options.on_connection = [this](const ConnectionEvent& event) { handle_event(event); };
  auto server = Server::listen(url, options);
  if (!server) return Unexpected<Error>(server.error());
  if (auto added = server->serve_messages(*this); !added) return added;
  const int descriptor = ::fcntl(server->wait_fd(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) {
    return Unexpected<Error>(Error{Errc::kNoResources, "listening", url, std::strerror(errno)});
  }
  server_.emplace(std::move(*server));
  addresses_.emplace_back(server_->address());
  static const TransportOperations operations = {
      .xp_recv = [](SVCXPRT* handle, rpc_msg*) -> bool_t {
        Transport::of<RdmaServer>(handle).serve();
        return FALSE;  // a rendezvous has no calls of its own
      },
      .xp_stat = [](SVCXPRT*) { return XPRT_IDLE; },
      .xp_getargs = refuse_arguments,
      .xp_reply = [](SVCXPRT*, rpc_msg*) -> bool_t { return FALSE; },
      .xp_freeargs = refuse_arguments,
      .xp_destroy = [](SVCXPRT* handle) { Transport::of<RdmaServer>(handle).end(); },
  };
  static const TransportControl control = {
      .xp_control = [](SVCXPRT*, u_int, void*) -> bool_t { return FALSE; },
  };
  const SocketAddress address(addresses_.front());
  transport_.set_local(address);
  transport_.handle().xp_port = address.port();
  transport_.begin(descriptor, operations, control);
  return {};
}

void RdmaServer::end() {
  is_ending_ = true;
  if (!is_serving_) process_server().reset();
}

void RdmaServer::serve() {
  if (is_serving_) return;
  is_serving_ = true;
  if (is_child_) note_child();
  progress_while_calls_come();
  end_lost();
  is_serving_ = false;
  // A program that destroyed the transport meanwhile wants this object gone.
  if (is_ending_) process_server().reset();
}

// A peer that makes one call after the other has its next one here before the program's loop has
// gone to sleep and been woken. So this yields for a short while behind a call, as the library's
// own loop does (ADR 10). A yield that took long went to a third process, and the next turns do
// without.
void RdmaServer::progress_while_calls_come() {
  constexpr std::chrono::microseconds kLinger{20}, kForeign{1'000}, kRest{10'000};
  using Clock = std::chrono::steady_clock;
  std::uint64_t before = calls_;
  server_->progress();
  if (calls_ == before || Clock::now() < rests_until_) return;
  for (Clock::time_point end = Clock::now() + kLinger; !is_ending_;) {
    const Clock::time_point start = Clock::now();
    if (start >= end) return;
    ::sched_yield();
    if (Clock::now() - start > kForeign) rests_until_ = Clock::now() + kRest;
    before = calls_;
    server_->progress();
    if (calls_ == before) continue;
    // Other transports get their turn after some calls.
    if (++lingered_ % kLingeredMax == 0) return;
    end = Clock::now() + kLinger;
  }
}

void RdmaServer::call(CallContext& context) {
  ++calls_;
  Connection* const connection = is_ending_ ? nullptr : connection_of(context.peer_address());
  if (connection == nullptr) return context.fail(AcceptStatus::kSystemErr);
  connection->push(context);
  // libtirpc takes the calls that come meanwhile behind the one that it dispatches.
  if (!connection->is_busy()) connection->dispatch();
}

Connection* RdmaServer::connection_of(std::string_view peer) {
  if (const auto found = connections_.find(peer); found != connections_.end()) {
    return found->second.get();
  }
  auto made = Connection::make(*this, peer, SocketAddress(addresses_.front()));
  if (!made) {
    report_once(fmt::format(
        "a call from {} was refused: this process has no descriptors left; raise its limit", peer));
    return nullptr;
  }
  return connections_.emplace(peer, std::move(made)).first->second.get();
}

void RdmaServer::handle_event(const ConnectionEvent& event) {
  if (event.kind != ConnectionEvent::Kind::kEnded) return;
  const auto found = connections_.find(event.peer);
  if (found == connections_.end()) return;
  found->second->lose();
  lost_.push_back(std::move(found->second));
  connections_.erase(found);
}

void RdmaServer::end_lost() {
  std::erase_if(lost_, [](const auto& each) { return !each->is_busy(); });
}

void RdmaServer::destroy(Connection& connection) {
  if (connection.is_busy()) {
    connection.lose();
    return;
  }
  const auto is_it = [&](const auto& each) { return each.get() == &connection; };
  if (std::erase_if(lost_, is_it) > 0) return;
  const auto found = connections_.find(connection.peer());
  if (found != connections_.end() && is_it(found->second)) connections_.erase(found);
}

void RdmaServer::note_child() {
  if (server_->provider_name() != "verbs") return;
  report_once(
      "this process is a child of the one that listens on the RDMA device, and cannot serve it: "
      "RDMA devices do not outlive fork(). Start the program in the foreground (most daemons have "
      "an option -f or -F), or with RPCRDMA_TIRPC_PROVIDER=siwarp");
}

void RdmaServer::report_once(std::string_view text) {
  if (!std::exchange(has_reported_, true)) report(text);
}

}  // namespace rpcrdma::tirpc
