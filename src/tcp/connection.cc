#include "tcp/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "posix/address.h"
#include "posix/vanished_peer.h"

namespace rpcrdma::tcp {
namespace {

constexpr std::size_t kVectorMax = 64;  // pieces in one system call
constexpr int kDiscardsPerRound = 16;
// Reads of one turn that bring nothing but the rest of a record over its limit, so that others have
// their turn, too.
constexpr int kSkipsPerRound = 16;

void set_option(int fd, int level, int name, int value) noexcept {
  setsockopt(fd, level, name, &value, sizeof(value));  // a wish; Unix sockets know none of these
}

void configure(int fd) noexcept {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  posix::notice_vanished_peer(fd);
}

bool would_block() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool is_unix_socket(int fd) noexcept {
  int family = 0;
  socklen_t size = sizeof(family);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
}

int error_of(int fd) noexcept {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

class Vector {
 public:
  // False: full.
  bool add(Bytes bytes) {
    if (count_ == vector_.size()) return false;
    // sendmsg only reads, although iovec has no const.
    vector_[count_++] = {const_cast<std::byte*>(bytes.data()),  // NOLINT(*-const-cast)
                         bytes.size()};
    size_ += bytes.size();
    return true;
  }
  msghdr header() noexcept {
    msghdr message{};
    message.msg_iov = vector_.data();
    message.msg_iovlen = count_;
    return message;
  }
  std::size_t size() const noexcept { return size_; }

 private:
  std::array<iovec, kVectorMax> vector_;
  std::size_t count_ = 0, size_ = 0;
};

}  // namespace

Expected<std::unique_ptr<Connection>, posix::SystemError> Connection::open(
    posix::Reactor& reactor, Accepted accepted, Memory& memory, const ConnectionOptions& options) {
  configure(accepted.socket.value());
  std::unique_ptr<Connection> connection(new Connection(reactor, std::move(accepted.socket), memory,
                                                        options, std::move(accepted.peer)));
  if (!connection->watch()) return posix::failed("epoll_ctl");
  return connection;
}

Expected<std::unique_ptr<Connection>, posix::SystemError> Connection::connect(
    posix::Reactor& reactor, const posix::Address& address, Memory& memory,
    const ConnectionOptions& options) {
  posix::Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return posix::failed("socket");
  configure(socket.value());
  const bool at_once = ::connect(socket.value(), address.pointer(), address.size) == 0;
  if (!at_once && errno != EINPROGRESS) return posix::failed("connect");
  std::unique_ptr<Connection> connection(
      new Connection(reactor, std::move(socket), memory, options, posix::to_string(address)));
  connection->connected_ = connection->writable_ = at_once;
  if (!connection->watch()) return posix::failed("epoll_ctl");
  if (!at_once) {
    connection->timed_ = true;
    reactor.set_deadline(*connection, posix::Reactor::now() + options.connect_timeout);
  }
  return connection;
}

// Changes only: a peer that nobody asks for messages does not wake anybody again and again.
bool Connection::watch() {
  constexpr std::uint32_t kEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  return reactor_.watch(socket_.value(), kEvents, *this);
}

Connection::Connection(posix::Reactor& reactor, posix::Fd socket, Memory& memory,
                       const ConnectionOptions& options, std::string peer_address)
    : reactor_(reactor),
      socket_(std::move(socket)),
      options_(options),
      peer_address_(std::move(peer_address)),
      is_local_(is_unix_socket(socket_.value())),
      reader_(memory, options.record),
      outgoing_(options.messages_unsent_max, options.send_timeout, options.record_rate_min),
      stalls_{StallClock(options.stall_timeout), StallClock(options.send_timeout)},
      record_clock_(options.record_timeout, options.record_rate_min) {}

Connection::~Connection() {
  if (shut_down_ && !reactor_.is_copy()) discard();  // the last chance to leave nothing unread
  abort();
}

void Connection::handle_ready(std::uint32_t events) {
  if (listener_ != nullptr) listener_->handle_news();
  // A Unix socket hangs up when its peer closes, with what the peer has sent still unread.
  if (is_local_ && !shut_down_ && (events & (EPOLLERR | EPOLLHUP)) == EPOLLHUP) {
    events = (events & ~std::uint32_t{EPOLLHUP}) | EPOLLRDHUP;
  }
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    // Reset, or closed by both sides: no reply can go out, so that no Call is worth executing.
    const int error = error_of(socket_.value());
    return end(shut_down_ && error == 0 ? End{EndKind::kClosed, 0} : End{EndKind::kLost, error});
  }
  if (!connected_) {
    if ((events & EPOLLOUT) == 0) return;
    connected_ = true;
    timed_ = false;
    reactor_.set_deadline(*this, std::nullopt);
  }
  if ((events & EPOLLRDHUP) != 0) hung_up_ = true;
  if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) {
    readable_ = true;
    if (record_clock_.runs()) record_clock_.stop(posix::Reactor::now());
  }
  if ((events & EPOLLOUT) != 0) writable_ = true;
  if (shut_down_) return discard();
  if ((events & EPOLLOUT) != 0) flush();
}

// --- Receiving ---------------------------------------------------------------------------------

std::optional<Message> Connection::receive() {
  for (int skips = 0; !ended() && !finishing_ && skips < kSkipsPerRound;) {
    if (!take_staged()) break;
    if (reader_.is_cut()) ++skips;
    if (reader_.done()) {
      late_ = false;
      if (timed_) stalls_.receiving.restart(posix::Reactor::now());
      record_clock_.note_record();
      return reader_.release();
    }
    if (!readable_ || peer_finished_ || !read_some()) break;
  }
  if (late_ && awaits_bytes()) end({EndKind::kStalled, 0});
  watch_progress();
  return std::nullopt;
}

bool Connection::has_more() const noexcept {
  if (ended() || finishing_ || peer_finished_ || starved()) return false;
  return readable_ || staged_begin_ < staged_end_;
}

// False: it cannot go on now, or never.
bool Connection::take_staged() {
  const Bytes staged = Bytes(staging_).subspan(staged_begin_, staged_end_ - staged_begin_);
  staged_begin_ += reader_.take(staged);
  if (reader_.error() == RecordError::kTooLarge) end({EndKind::kTooLarge, 0});
  if (reader_.error() == RecordError::kTooManyFragments) end({EndKind::kTooManyFragments, 0});
  return !ended() && (reader_.done() || staged_begin_ == staged_end_);
}

// Precondition: nothing is staged. False: nothing came.
bool Connection::read_some() {
  staged_begin_ = staged_end_ = 0;
  const MutableBytes place = reader_.place();
  if (reader_.starved()) return false;
  Vector vector;
  if (!place.empty()) vector.add(place);
  if (options_.read_ahead) {
    vector.add(staging_);
  } else if (place.empty()) {
    vector.add(Bytes(staging_).first(std::min(reader_.wanted(), staging_.size())));
  }
  msghdr message = vector.header();
  const ssize_t size = ::recvmsg(socket_.value(), &message, 0);
  if (size > 0) {
    // Later bytes cause a new event; an end of the stream that was already reported does not.
    if (static_cast<std::size_t>(size) < vector.size() && !hung_up_) readable_ = false;
    handle_read(static_cast<std::size_t>(size), place.size());
    return true;
  }
  if (size == 0) {
    peer_finished_ = true;
    if (!reader_.at_start()) end({EndKind::kLost, 0});
  } else if (!would_block()) {
    end({EndKind::kLost, errno});
  } else if (errno != EINTR) {
    readable_ = false;
  }
  return false;
}

void Connection::handle_read(std::size_t size, std::size_t placed_max) {
  bytes_received_ += size;
  record_clock_.note_bytes(size);
  if (record_clock_.runs()) record_clock_.stop(posix::Reactor::now());
  if (stalls_.receiving.note_received(size)) {
    late_ = false;
    if (timed_) stalls_.receiving.restart(posix::Reactor::now());
  }
  const std::size_t placed = std::min(size, placed_max);
  reader_.handle_placed(placed);
  staged_end_ = size - placed;
}

// --- Sending -----------------------------------------------------------------------------------

bool Connection::send(std::span<const Bytes> runs) {
  std::size_t size = 0;
  for (const Bytes run : runs) size += run.size();
  if (size > kFragmentSizeMax) return false;
  if (ended() || shut_down_) {
    outgoing_.settle();
    return true;
  }
  outgoing_.push(runs, size);
  return true;
}

void Connection::flush() {
  while (writable_ && !ended() && !outgoing_.empty()) {
    Vector vector;
    outgoing_.for_each_unsent([&vector](Bytes bytes) { return vector.add(bytes); });
    msghdr message = vector.header();
    const ssize_t size = ::sendmsg(socket_.value(), &message, MSG_NOSIGNAL);
    if (size >= 0) {
      bytes_sent_ += static_cast<std::size_t>(size);
      outgoing_.take(static_cast<std::size_t>(size));
      if (timed_) stalls_.note_sent(posix::Reactor::now());
    } else if (!would_block()) {
      end({EndKind::kLost, errno});
    } else if (errno != EINTR) {
      writable_ = false;
    }
  }
  if (finishing_) shut_down();
  watch_progress();
}

// --- The end -----------------------------------------------------------------------------------

void Connection::finish() {
  if (ended() || finishing_) return;
  if (!connected_) return abort();
  finishing_ = true;
  reader_.clear();
  record_clock_.note_record();
  flush();
}

// A close() with unread bytes would make the kernel throw away what was sent last: the FIN goes
// first, and what still comes is read, for a while.
void Connection::shut_down() {
  if (ended() || shut_down_ || !outgoing_.empty()) return;
  if (reactor_.is_copy()) return end({EndKind::kClosed, 0});
  if (peer_finished_) return end({EndKind::kClosed, 0});
  shut_down_ = true;
  ::shutdown(socket_.value(), SHUT_WR);
  timed_ = true;
  reactor_.set_deadline(*this, posix::Reactor::now() + options_.linger);
  // Told again and again from now on, since a round reads only so much.
  reactor_.rewatch(socket_.value(), EPOLLIN, *this, *this);
}

void Connection::discard() {
  for (int i = 0; i < kDiscardsPerRound && !ended(); ++i) {
    const ssize_t size = ::recv(socket_.value(), staging_.data(), staging_.size(), 0);
    if (size < 0 && would_block()) return;
    if (size <= 0) end({EndKind::kClosed, 0});
  }
}

bool Connection::is_between_records() const noexcept {
  return !ended() && !finishing_ && connected_ && staged_begin_ == staged_end_ &&
         reader_.at_start();
}

PeerState Connection::look_at_peer() {
  if (ended() || peer_finished_) return PeerState::kHasEnded;
  if (!is_between_records()) return PeerState::kTalks;
  std::byte next;
  const ssize_t size = ::recv(socket_.value(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (size > 0) return PeerState::kTalks;
  if (size < 0 && would_block()) return PeerState::kQuiet;
  // The system reports an error once only.
  if (size < 0) end({EndKind::kLost, errno});

  return PeerState::kHasEnded;
}

void Connection::close() {
  end({EndKind::kClosed, 0});
}

std::optional<posix::Fd> Connection::release() {
  if (!is_between_records() || !outgoing_.empty()) return std::nullopt;
  reactor_.unwatch(socket_.value(), *this);
  std::optional<posix::Fd> socket(std::move(socket_));
  abort();
  return socket;
}

// Inside of a record, of which all that has come was read.
bool Connection::awaits_bytes() const noexcept {
  return !reader_.at_start() && !readable_ && !reader_.starved();
}

// Also for memory that other connections use.
bool Connection::awaits_record() const noexcept {
  return reader_.starved() || awaits_bytes();
}

void Connection::watch_progress() {
  watch_record();
  outgoing_.watch(posix::Reactor::now);
  if (ended()) return;
  stalls_.receiving.note_busy(!reader_.at_start(), posix::Reactor::now);
  stalls_.sending.note_busy(!outgoing_.empty(), posix::Reactor::now);
  if (outgoing_.empty() && !awaits_record()) return;
  if (!timed_) {
    stalls_.note_sent(posix::Reactor::now());
    set_deadline();
  } else if (next_deadline() < deadline_) {
    set_deadline();
  }
}

// The time of a record that has begun runs, and may be over sooner than what the deadline is set
// for.
void Connection::watch_record() {
  if (!record_clock_.is_in_use() || record_clock_.runs() || ended() || shut_down_ ||
      !awaits_bytes())
    return;
  const Instant now = posix::Reactor::now();
  record_clock_.start(now);
  if (record_clock_.deadline() <= now) return end({EndKind::kSlow, 0});
  if (timed_ && record_clock_.deadline() < deadline_) set_deadline();
}

// Precondition: something is under way.
Instant Connection::next_deadline() const noexcept {
  Deadline first;
  if (!outgoing_.empty()) first = earlier(stalls_.sending.deadline(), outgoing_.deadline());
  if (awaits_record()) first = earlier(first, stalls_.receiving.deadline());
  if (record_clock_.runs()) first = earlier(first, record_clock_.deadline());
  return *first;
}

void Connection::set_deadline() {
  timed_ = true;
  deadline_ = next_deadline();
  reactor_.set_deadline(*this, deadline_);
}

void Connection::handle_deadline() {
  if (listener_ != nullptr) listener_->handle_news();
  timed_ = false;
  if (shut_down_) return end({EndKind::kClosed, 0});
  if (!connected_) return end({EndKind::kStalled, 0});
  const Instant now = posix::Reactor::now();
  // All that rested when the connection was looked at last has begun since, if it is under way.
  if (!stalls_.receiving.is_busy()) stalls_.receiving.restart(now);
  if (!stalls_.sending.is_busy()) stalls_.sending.restart(now);
  const bool is_over = stalls_.receiving.deadline() <= now;
  if (!outgoing_.empty() && (stalls_.sending.deadline() <= now || outgoing_.is_late(now))) {
    return end({EndKind::kStalled, 0});
  }
  if (awaits_record()) {
    if (is_over) return end({EndKind::kStalled, reader_.starved() ? ENOMEM : 0});
    if (record_clock_.runs() && record_clock_.deadline() <= now) return end({EndKind::kSlow, 0});
  } else if (is_over && !reader_.at_start()) {
    late_ = true;  // something can be read: whether that is enough is known when it has been
  }
  if (!outgoing_.empty() || awaits_record()) set_deadline();
}

void Connection::end(const End& why) {
  if (ended()) return;
  end_ = why;
  if (socket_) reactor_.unwatch(socket_.value(), *this);
  socket_.close();
  reader_.clear();
  outgoing_.clear();
}

}  // namespace rpcrdma::tcp
