#include "blob/step_up_listener.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "blob.h"
#include "rpcrdma/generated/codec.h"
#include "rpcrdma/xdr.h"
#include "stream/call.h"

namespace blob {
namespace {

using rpcrdma::AcceptStatus;
using rpcrdma::Bytes;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::Expected;
using rpcrdma::Unexpected;
namespace stream = rpcrdma::stream;

constexpr std::uint32_t kRecordSizeMax = 1024;  // a Call with the longest credentials takes 840
constexpr int kBacklog = 128;
constexpr int kAcceptsPerRound = 16;
// How long accept() rests when the system has no more descriptors: the socket stays readable then,
// and without a rest the loop would spin.
constexpr std::chrono::milliseconds kExhaustedRest{100};

Unexpected<Error> failed(const std::string& host, std::uint16_t port, const std::string& cause) {
  const bool six = host.find(':') != std::string::npos;
  const std::string peer = (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
  return Unexpected<Error>(Error{Errc::kNoResources, "listening on plain TCP", peer, cause});
}
std::string text_of_errno() {
  return std::generic_category().message(errno);
}

std::string local_address(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(descriptor, any, &size) != 0 ||
      ::getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string text = host.data();
  return (address.ss_family == AF_INET6 ? "[" + text + "]" : text) + ":" + port.data();
}

bool watch(int epoll, int descriptor, void* whose) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = whose;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

StepUpListener::Connection::Connection(int descriptor, Clock::time_point end)
    : socket(descriptor), deadline(end), reader(kRecordSizeMax) {}

Expected<StepUpListener, Error> StepUpListener::listen(const std::string& host, std::uint16_t port,
                                                       rpcrdma::Server& server,
                                                       const StepUpOptions& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) return failed(host, port, gai_strerror(result));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  StepUpListener made(server, options);
  made.listening_ =
      Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  made.timer_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  made.epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  const int on = 1;
  ::setsockopt(made.listening_.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(made.listening_.value(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(made.listening_.value(), kBacklog) != 0 ||
      !watch(made.epoll_.value(), made.listening_.value(), nullptr) ||
      !watch(made.epoll_.value(), made.timer_.value(), nullptr)) {
    return failed(host, port, text_of_errno());
  }
  made.address_ = local_address(made.listening_.value());
  return made;
}

void StepUpListener::progress() {
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll_.value(), events.data(), static_cast<int>(events.size()), 0);
  if (count <= 0) return;
  // First what may end the connection that it is about, then what may end others.
  bool others = false;
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(count))) {
    if (event.data.ptr == nullptr) {
      others = true;
    } else {
      receive(*static_cast<Connection*>(event.data.ptr));
    }
  }
  if (others) {
    expire();
    accept_connections();
  }
  arm_timer();
}

// --- Connections that come and go --------------------------------------------------------------

void StepUpListener::accept_connections() {
  if (resting_until_) return;
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    const int descriptor =
        ::accept4(listening_.value(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      // Honest clients ask at once, silent ones grow old.
      if (!waiting_.empty() && waiting_.size() >= options_.waiting_max) close(waiting_.front());
      waiting_.emplace_back(descriptor, Clock::now() + options_.timeout);
      waiting_.back().self = std::prev(waiting_.end());
      if (!watch(epoll_.value(), descriptor, &waiting_.back())) close(waiting_.back());
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return rest();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
    // Anything else is about one connection that is gone already.
  }
}

void StepUpListener::rest() {
  ::epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, listening_.value(), nullptr);
  resting_until_ = Clock::now() + kExhaustedRest;
}

void StepUpListener::expire() {
  std::uint64_t expirations = 0;
  while (::read(timer_.value(), &expirations, sizeof(expirations)) > 0) {
  }
  const auto now = Clock::now();
  while (!waiting_.empty() && waiting_.front().deadline <= now) close(waiting_.front());
  if (resting_until_ && *resting_until_ <= now &&
      watch(epoll_.value(), listening_.value(), nullptr)) {
    resting_until_.reset();
  }
}

void StepUpListener::arm_timer() {
  std::optional<Clock::time_point> next = resting_until_;
  if (!waiting_.empty()) {
    next = next ? std::min(*next, waiting_.front().deadline) : waiting_.front().deadline;
  }
  itimerspec when{};  // none
  if (next) {
    // Clock is CLOCK_MONOTONIC; a time that is over goes off at once.
    const auto ns = std::chrono::nanoseconds(next->time_since_epoch()).count();
    when.it_value.tv_sec = ns / 1'000'000'000;
    when.it_value.tv_nsec = ns % 1'000'000'000;
  }
  ::timerfd_settime(timer_.value(), TFD_TIMER_ABSTIME, &when, nullptr);
}

// --- Calls -------------------------------------------------------------------------------------

// One record: if there are more, the loop comes back, and others have their turn before.
void StepUpListener::receive(Connection& connection) {
  std::array<std::byte, kRecordSizeMax> buffer;
  while (!connection.reader.done()) {
    const std::size_t wanted = std::min(buffer.size(), connection.reader.wanted());
    const ssize_t size = ::recv(connection.socket.value(), buffer.data(), wanted, 0);
    if (size > 0) {
      connection.reader.take(Bytes(buffer).first(static_cast<std::size_t>(size)));
      if (!connection.reader.failure().empty()) return close(connection);
    } else if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return;
    } else if (size == 0 || errno != EINTR) {
      return close(connection);
    }
  }
  answer(connection);
}

// The connection may be gone afterwards.
void StepUpListener::answer(Connection& connection) {
  const stream::RecordReader reader =
      std::exchange(connection.reader, stream::RecordReader(kRecordSizeMax));
  const auto call = stream::open_call(reader.record());
  if (!call) return close(connection);
  if (call->rpc_version != stream::kRpcVersion) {
    return send(connection, stream::rpc_mismatch_record(call->xid));
  }
  const auto say = [&](AcceptStatus status, Bytes body = {}) {
    send(connection, stream::accepted_record(call->xid, status, body));
  };
  if (call->procedure.program != BLOB_PROGRAM) return say(AcceptStatus::kProgUnavail);
  if (call->procedure.version != BLOB_V1) {
    std::array<std::byte, 2 * rpcrdma::xdr::kWordSize> range;
    rpcrdma::xdr::Writer(range).words({BLOB_V1, BLOB_V1});
    return say(AcceptStatus::kProgMismatch, range);
  }
  if (call->procedure.number != BLOB_NULL && call->procedure.number != BLOB_STEP_UP) {
    return say(AcceptStatus::kProcUnavail);
  }
  if (!call->arguments.empty()) return say(AcceptStatus::kGarbageArgs);
  if (call->procedure.number == BLOB_NULL) return say(AcceptStatus::kSuccess);
  step_up(connection, call->xid);
}

void StepUpListener::step_up(Connection& connection, std::uint32_t xid) {
  // What stands behind the Call already was not said by somebody who waits for the answer; it must
  // not be taken for the set-up of RDMA. 0: the peer has gone.
  std::byte next;
  const int descriptor = connection.socket.value();
  if (::recv(descriptor, &next, 1, MSG_PEEK) >= 0) return close(connection);
  const auto results = rpcrdma::to_bytes(step_up_status::STEP_UP_NOW);
  const auto record = stream::accepted_record(xid, AcceptStatus::kSuccess, results);
  if (::send(descriptor, record.data(), record.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(record.size())) {
    return close(connection);
  }
  ::epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, descriptor, nullptr);
  // When it fails, because the server is stopping or has too many, it has closed the connection.
  (void)server_->adopt(connection.socket.release());
  close(connection);
}

// Replies are a few dozen bytes: a socket that does not take them all has a peer that does not
// read.
void StepUpListener::send(Connection& connection, Bytes record) {
  const ssize_t sent =
      ::send(connection.socket.value(), record.data(), record.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(record.size())) close(connection);
}

}  // namespace blob
