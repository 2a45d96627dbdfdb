#include "server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <rpc/rpc_com.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "border.h"
#include "settings.h"

namespace rpcrdma::tirpc {

namespace {

// Rounds that one turn of the program's loop serves at most by lingering.
constexpr int kRoundsMax = 64;
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
  static const int watched = ::pthread_atfork(
      nullptr,
      [] {
        if (const RdmaServer* const server = current()) server->note_fork();
      },
      [] {
        if (RdmaServer* const server = current()) server->become_child();
      });
  (void)watched;
}

// Connections fail the calls that nobody has answered, for which the server has to be there.
RdmaServer::~RdmaServer() {
  connections_.clear();
  if (child_signal_ >= 0) ::close(child_signal_);
}

Expected<void, Error> RdmaServer::open(const std::string& url) {
  if (server_) {
    auto added = server_->add_listener(url);
    if (!added) return Unexpected<Error>(added.error());
    addresses_.push_back(std::move(*added));
    return watch_server(url);  // it may wait on another descriptor now
  }
  ServerOptions options;
  options.provider = settings().provider;
  options.provider.descriptors_from = FD_SETSIZE;
  options.bulk_size_max = options.long_call_size_max = settings().call_max;
  options.memory_max = settings().memory_max;
  options.connections_max = connections_max();
  options.on_connection = [this](const ConnectionEvent& event) { handle_event(event); };
  auto server = Server::listen(url, options);
  if (!server) return Unexpected<Error>(server.error());
  if (auto added = server->serve_messages(*this); !added) return added;
  const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
  if (descriptor < 0) {
    return Unexpected<Error>(Error{Errc::kNoResources, "listening", url, std::strerror(errno)});
  }
  server_.emplace(std::move(*server));
  addresses_.emplace_back(server_->address());
  is_of_device_ = server_->provider_name() == "verbs";
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
  return watch_server(url);
}

Expected<void, Error> RdmaServer::watch_server(const std::string& url) {
  const int wanted = server_->wait_fd(), set = transport_.descriptor();
  epoll_event entry{};
  entry.events = EPOLLIN;
  if (::epoll_ctl(set, EPOLL_CTL_ADD, wanted, &entry) != 0 && errno != EEXIST) {
    return Unexpected<Error>(Error{Errc::kNoResources, "listening", url, std::strerror(errno)});
  }
  if (watched_ >= 0 && watched_ != wanted) (void)::epoll_ctl(set, EPOLL_CTL_DEL, watched_, &entry);
  watched_ = wanted;
  gate_is_open_ = true;
  return {};
}

void RdmaServer::open_gate(bool is_open) noexcept {
  if (std::exchange(gate_is_open_, is_open) == is_open) return;
  epoll_event entry{};
  entry.events = is_open ? std::uint32_t{EPOLLIN} : 0U;
  (void)::epoll_ctl(transport_.descriptor(), EPOLL_CTL_MOD, watched_, &entry);
}

void RdmaServer::end() {
  is_ending_ = true;
  if (!is_serving_) process_server().reset();
}

void RdmaServer::serve() {
  if (is_child_) return note_child();
  // A loop that a dispatch function runs would find the descriptor readable until that function has
  // returned, and never sleep.
  if (is_serving_) return open_gate(false);
  is_serving_ = true;
  (void)comes_to_its_end([this] {
    progress_while_more_comes();
    end_lost();
  });
  (void)server_->wait_fd();  // signals what is left to do, also where an exception has left it
  is_serving_ = false;
  // A program that destroyed the transport meanwhile wants this object gone.
  if (is_ending_) return process_server().reset();
  open_gate(true);
}

// A peer that makes one call after the other has its next one here before the program's loop has
// gone to sleep and been woken; and so has the rest of a long message. So this lingers, as the
// library's own loop does (ADR 10). Other transports get their turn after some rounds.
void RdmaServer::progress_while_more_comes() {
  server_->progress();
  for (int round = 0; round < kRoundsMax && !is_ending_ && server_->linger(); ++round) {
    server_->progress();
  }
}

void RdmaServer::call(CallContext& context) {
  Connection* connection = nullptr;
  const bool is_taken = comes_to_its_end([&] {
    if (!is_ending_) connection = connection_of(context);
    if (connection != nullptr) connection->push(context);
  });
  if (!is_taken || connection == nullptr) return context.fail(AcceptStatus::kSystemErr);
  // libtirpc takes the calls that come meanwhile behind the one that it dispatches.
  if (!connection->is_busy()) connection->dispatch();
}

Connection* RdmaServer::connection_of(const CallContext& context) {
  // Not by the address: peers at two listeners may have the same.
  const std::uint64_t number = context.connection_number();
  const auto [found, is_new] = connections_.try_emplace(number);
  if (!is_new) return found->second.get();
  (void)comes_to_its_end([&, place = &found->second] {
    *place =
        Connection::make(*this, number, context.peer_address(), SocketAddress(addresses_.front()));
  });
  if (found->second) return found->second.get();
  connections_.erase(found);
  if (may_report(Topic::kNoDescriptor)) {
    report(
        fmt::format("a call from {} was refused: this process has no descriptors left; raise its "
                    "limit (ulimit -n)",
                    context.peer_address()));
  }
  return nullptr;
}

void RdmaServer::handle_event(const ConnectionEvent& event) noexcept {
  if (event.kind == ConnectionEvent::Kind::kRefused && may_report(Topic::kRefusal)) {
    (void)comes_to_its_end([&] {
      report(
          fmt::format("{}; RPCRDMA_TIRPC_CONNECTIONS_MAX and the limit of descriptors (ulimit -n) "
                      "bound the connections",
                      event.error->message()));
    });
  }
  if (event.kind != ConnectionEvent::Kind::kEnded) return;
  const auto found = connections_.find(event.number);
  if (found == connections_.end()) return;
  found->second->lose();
  has_lost_ = true;
}

void RdmaServer::end_lost() {
  if (!std::exchange(has_lost_, false)) return;
  std::erase_if(connections_, [this](const auto& each) {
    if (!each.second->is_lost()) return false;
    if (each.second->is_busy()) has_lost_ = true;
    return !each.second->is_busy();
  });
}

void RdmaServer::destroy(Connection& connection) {
  if (connection.is_busy()) {
    connection.lose();
    return;
  }
  connections_.erase(connection.number());
}

void RdmaServer::note_fork() const noexcept {
  if (!is_of_device_ || is_child_ || !may_report(Topic::kFork)) return;
  report(
      "this process forks while it listens on an RDMA device, which its child cannot serve. If the "
      "child is to take its place, as a daemon does, start the program in the foreground (most "
      "daemons have an option -f or -F), or with RPCRDMA_TIRPC_PROVIDER=siwarp");
}

// The set behind the rendezvous' descriptor is the parent's too, and what is in it belongs to the
// parent. The child gets another one, in which a loop finds only that there is something to say. A
// child that calls exec() runs none.
void RdmaServer::become_child() noexcept {
  if (!is_of_device_) return;
  is_child_ = true;
  const int own = ::epoll_create1(EPOLL_CLOEXEC);
  if (child_signal_ >= 0) ::close(child_signal_);
  child_signal_ = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event entry{};
  entry.events = EPOLLIN;
  (void)::epoll_ctl(own, EPOLL_CTL_ADD, child_signal_, &entry);
  if (own < 0) return;
  (void)::dup3(own, transport_.descriptor(), O_CLOEXEC);
  ::close(own);
}

void RdmaServer::note_child() noexcept {
  if (child_signal_ < 0) return;
  ::close(std::exchange(child_signal_, -1));
  report(
      "this process is a child of the one that listens on the RDMA device, and cannot serve it: "
      "RDMA devices do not outlive fork(). Start the program in the foreground (most daemons have "
      "an option -f or -F), or with RPCRDMA_TIRPC_PROVIDER=siwarp");
}

}  // namespace rpcrdma::tirpc
