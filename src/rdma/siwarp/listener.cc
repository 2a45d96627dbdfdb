#include "rdma/siwarp/listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "posix/accept.h"

namespace rpcrdma::rdma::siwarp {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptsPerRound = 64;
// The pause of accept() when the system has no more descriptors, or the socket was shut down: it
// stays readable then, and without a rest the loop would spin.
constexpr std::chrono::milliseconds kExhaustedRest{100};
constexpr std::chrono::seconds kReportsEvery{1};  // while it lasts

// Sends the rest of the set-up's output as far as the socket takes it, which is all for these few
// bytes.
void send_output(TcpSocket& socket, iwarp::MpaSetup& setup) {
  const Bytes output = setup.output();
  if (output.empty()) return;
  const IoResult result = socket.send({&output, 1});
  if (result.kind == IoResult::Kind::kBytes) setup.handle_sent(result.size);
}

}  // namespace

HalfOpen::HalfOpen(Listener& listener, Shard& shard, TcpSocket socket, std::string peer_address)
    : listener_(listener),
      shard_(shard),
      socket_(std::move(socket)),
      peer_address_(std::move(peer_address)),
      age_(shard_.half_open.insert(shard_.half_open.end(), this)) {
  setup_.reset(new iwarp::MpaSetup(
      iwarp::MpaSetup::responder(shard_.setup_options(false), posix::Reactor::now())));
}

HalfOpen::~HalfOpen() {
  shard_.half_open.erase(age_);
  if (!socket_) return;  // went on as Incoming or Lingering
  shard_.reactor->unwatch(socket_.fd(), *this);
  shard_.give_connection();
}

void HalfOpen::handle_ready(std::uint32_t /*events*/) {
  std::array<std::byte, iwarp::kMpaFrameMax> bytes;
  while (!ended_) {
    const std::size_t wanted = setup_->bytes_wanted();
    if (wanted == 0) break;
    const MutableBytes room = MutableBytes(bytes).first(wanted);
    const IoResult result = socket_.receive({&room, 1});
    if (result.kind == IoResult::Kind::kWouldBlock) return;
    if (result.kind == IoResult::Kind::kBytes) {
      setup_->handle_received(room.first(result.size));
    } else {
      setup_->handle_end_of_stream();
    }
    judge();
  }
  listener_.reap();
}

void HalfOpen::judge() {
  if (setup_->state() == iwarp::MpaSetup::State::kDeciding) {
    ended_ = true;
    ++shard_.setup.presented;
    listener_.incoming_.push_back(std::make_unique<Incoming>(shard_, *this));
  } else if (setup_->state() == iwarp::MpaSetup::State::kFailed) {
    ended_ = true;
    ++shard_.setup.malformed;
    send_output(socket_, *setup_);
    shard_.give_connection();
    shard_.linger(std::move(socket_), this);
  }
}

void HalfOpen::handle_deadline() {
  ++shard_.setup.timed_out;
  ended_ = true;
  listener_.reap();
}

void HalfOpen::evict() {
  ++shard_.setup.evicted;
  ended_ = true;
  listener_.reap();
}

Incoming::Incoming(Shard& shard, HalfOpen& half_open)
    : shard_(&shard),
      socket_(std::move(half_open.socket_)),
      setup_(std::move(half_open.setup_)),
      peer_address_(std::move(half_open.peer_address_)),
      receives_are_elastic_(shard.options.shares_receives) {
  shard_->reactor->unwatch(socket_.fd(), half_open);
}

Incoming::~Incoming() {
  if (!socket_) return;  // accepted
  if (born_.elsewhere()) {
    if (shard_ != nullptr) shard_->give_connection();
    return;
  }
  setup_->reject({});
  send_output(socket_, *setup_);
  if (shard_ == nullptr) {
    socket_.finish_sending();
    return;
  }
  shard_->give_connection();
  shard_->linger(std::move(socket_), nullptr);
}

bool Incoming::detach() {
  shard_->give_connection();
  shard_ = nullptr;
  return true;
}

Expected<std::unique_ptr<Listener>, Error> Listener::open(Shard& shard,
                                                          const posix::Address& address) {
  auto fd = open_tcp(address.family(), shard.options.descriptors_from);
  if (!fd) return Unexpected<Error>(fd.error());
  const int on = 1;
  setsockopt(fd->value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (shard.options.share_port &&
      setsockopt(fd->value(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
    return Unexpected<Error>(Error{Errc::kBadAddress, errno, "sharing a port"});
  }
  if (bind(fd->value(), address.pointer(), address.size) != 0) {
    return Unexpected<Error>(Error{Errc::kBadAddress, errno, "bind"});
  }
  if (::listen(fd->value(), kBacklog) != 0) {
    return Unexpected<Error>(Error{Errc::kBadAddress, errno, "listen"});
  }
  TcpSocket socket(std::move(*fd));
  std::string real = to_string(socket.local());
  std::unique_ptr<Listener> listener(new Listener(shard, socket.release(), std::move(real)));
  if (!shard.reactor->watch(listener->fd_.value(), EPOLLIN, *listener)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "epoll_ctl"});
  }
  return listener;
}

Listener::Listener(Shard& shard, posix::Fd fd, std::string address)
    : shard_(shard), fd_(std::move(fd)), address_(std::move(address)) {}

Listener::~Listener() {
  shard_.reactor->unwatch(fd_.value(), *this);
}

void Listener::handle_ready(std::uint32_t /*events*/) {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    posix::Address peer;
    peer.size = sizeof(peer.storage);
    posix::Fd fd(accept4(fd_.value(), peer.pointer(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      fd.move_up(shard_.options.descriptors_from);
      take(std::move(fd), to_string(peer));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) {
      reports_at_ = {};  // a lack is over when everybody has come in, not when one has
      return;
    }
    if (posix::is_about_one_connection(error)) continue;
    // No descriptors, or no memory; or another process that has the socket has shut it down.
    const bool is_lack = posix::is_about_resources(error);
    if (is_lack && !posix::has_waiting_connection(fd_.value())) return;
    // A peer that does not close keeps the descriptor of a connection that is over.
    if (is_lack && shard_.end_lingering()) continue;
    return rest(error);
  }
}

void Listener::rest(int error) {
  const Instant now = posix::Reactor::now();
  if (now >= reports_at_) {
    const bool is_lack = posix::is_about_resources(error);
    refusal_ = Error{is_lack ? Errc::kNoResources : Errc::kProvider, error, "accept"};
    reports_at_ = now + kReportsEvery;
  }
  // The reactor would report a socket that is shut down whatever it was asked to watch for.
  shard_.reactor->unwatch(fd_.value(), *this);
  shard_.reactor->set_deadline(*this, now + kExhaustedRest);
}

void Listener::handle_deadline() {
  if (shard_.reactor->watch(fd_.value(), EPOLLIN, *this)) return;
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kExhaustedRest);
}

void Listener::take(posix::Fd fd, std::string peer_address) {
  ++shard_.setup.accepted;
  if (!shard_.take_connection()) {
    ++shard_.setup.evicted;
    return;
  }
  TcpSocket socket(std::move(fd));
  socket.configure(shard_.options.socket_buffer_size);
  if (shard_.capture) socket.record(*shard_.capture, false);
  const int number = socket.fd();
  half_open_.push_back(
      std::make_unique<HalfOpen>(*this, shard_, std::move(socket), std::move(peer_address)));
  HalfOpen& half_open = *half_open_.back();
  if (!shard_.reactor->watch(number, EPOLLIN, half_open)) {
    half_open_.pop_back();
    return;
  }
  shard_.reactor->set_deadline(half_open,
                               posix::Reactor::now() + shard_.options.setup_timeout_responder);
  // The oldest makes room, whichever listener it is of: honest peers send their Request at once,
  // silent ones grow old.
  if (shard_.half_open.size() > shard_.options.half_open_max) shard_.half_open.front()->evict();
}

Expected<void, Error> Listener::adopt(int descriptor) {
  auto fd = take_over_tcp(descriptor);
  if (!fd) return Unexpected<Error>(fd.error());
  TcpSocket socket(std::move(*fd));
  std::string peer = to_string(socket.remote());
  take(socket.release(), std::move(peer));
  return {};
}

void Listener::reap() {
  std::erase_if(half_open_, [](const auto& each) { return each->ended(); });
}

std::unique_ptr<rdma::Incoming> Listener::poll_incoming() {
  if (incoming_.empty()) return nullptr;
  std::unique_ptr<Incoming> next = std::move(incoming_.front());
  incoming_.pop_front();
  return next;
}

}  // namespace rpcrdma::rdma::siwarp
