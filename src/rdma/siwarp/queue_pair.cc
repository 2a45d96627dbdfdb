#include "rdma/siwarp/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rpcrdma::rdma::siwarp {
namespace {

// From this segment size on it is loopback (or as good as): FPDUs are as large as they can be.
constexpr std::size_t kLargeSegment = 32 * 1024;
// Limits how much one connection reads, in calls and bytes, and sends before others have their
// turn; of one long message less is sent (Stream::ends_turn()).
constexpr int kReceivesPerTurn = 32;
constexpr std::size_t kReceivedPerTurn = (std::size_t{1} << 20U) + 64 * std::size_t{1024};
constexpr std::size_t kSentPerTurn = std::size_t{1} << 20U;
// Enough for a responder that takes half a second between its Reply and its first look at FPDUs.
constexpr int kNudgesMax = 6;

Error error_of(iwarp::SetupError setup) {
  const std::string_view text = iwarp::to_string(setup);
  switch (setup) {
    case iwarp::SetupError::kTimedOut:
      return {Errc::kTimedOut, 0, text};
    case iwarp::SetupError::kRejected:
    case iwarp::SetupError::kClosed:
    case iwarp::SetupError::kRefused:
      return {Errc::kRefused, 0, text};
    case iwarp::SetupError::kNone:
    case iwarp::SetupError::kNotMpa:
    case iwarp::SetupError::kTooLong:
    case iwarp::SetupError::kMarkers:
    case iwarp::SetupError::kRevision:
    case iwarp::SetupError::kNotEnhanced:
    case iwarp::SetupError::kIrd:
    case iwarp::SetupError::kRtr:
      return {Errc::kProtocol, 0, text};
  }
  return {Errc::kProvider, 0, text};
}

Error error_of(const iwarp::Cause& cause) {
  using By = iwarp::Cause::By;
  const bool rules = cause.by == By::kOurCheck || cause.by == By::kTerminate;
  // Whoever closes in order has nothing left to send.
  const bool is_cut = cause.by == By::kPeerClosed && cause.fault != iwarp::Fault::kNone;
  return {rules ? Errc::kProtocol : Errc::kClosed, is_cut ? EPROTO : 0, cause.text};
}

}  // namespace

QueuePair::QueuePair(Shard& shard, TcpSocket socket, std::unique_ptr<iwarp::MpaSetup> setup,
                     std::string peer_address)
    : news(*this, &shard.news),
      shard_(shard),
      socket_(std::move(socket)),
      setup_(std::move(setup)),
      peer_address_(std::move(peer_address)),
      capabilities_{shard.options.queue_depth, shard.options.ord, std::uint32_t{kSlicesMax}, true,
                    true},
      posting_(shard, stream_, capabilities_),
      stream_(shard.stream_options(), shard.random, &shard.blocks),
      initiator_(true),
      may_nudge_(shard.options.first_answer_nudge.count() > 0) {
  capabilities_.shares_receives = shard.options.shares_receives;
  stream_.use_memory(posting_.receives());
}

QueuePair::~QueuePair() {
  end({Errc::kClosed, 0, "destroyed"});
  if (waits_to_send_) std::erase(shard_.senders, this);
  shard_.turn_size.forget(this);
}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::initiator(Shard& shard, posix::Fd fd,
                                                                 Bytes private_data,
                                                                 std::string peer_address) {
  const std::size_t room =
      shard.options.mpa_revision >= 2 ? iwarp::kMpaUserDataMax : iwarp::kMpaPrivateDataMax;
  if (private_data.size() > room) {
    return Unexpected<Error>(Error{Errc::kUnsupported, 0, "connect: too much private data"});
  }
  if (!shard.take_connection()) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "connect: too many connections"});
  }
  TcpSocket socket(std::move(fd));
  socket.configure(shard.options.socket_buffer_size);
  auto setup = std::unique_ptr<iwarp::MpaSetup>(new iwarp::MpaSetup(
      iwarp::MpaSetup::initiator(shard.setup_options(true), private_data, posix::Reactor::now())));
  const int number = socket.fd();
  std::unique_ptr<QueuePair> made(
      new QueuePair(shard, std::move(socket), std::move(setup), std::move(peer_address)));
  if (!shard.reactor->watch(number, 0, *made)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "epoll_ctl"});
  }
  shard.reactor->set_deadline(*made, made->setup_->deadline());
  shard.reactor->arm();  // the caller may wait for the descriptor before its first round
  return made;
}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::connect(Shard& shard,
                                                               const posix::Address& address,
                                                               Bytes private_data) {
  auto fd = open_tcp(address.family(), shard.options.descriptors_from);
  if (!fd) return Unexpected<Error>(fd.error());
  const int number = fd->value();
  auto made = initiator(shard, std::move(*fd), private_data, to_string(address));
  if (!made) return made;
  if (::connect(number, address.pointer(), address.size) != 0 && errno != EINPROGRESS) {
    (*made)->end({Errc::kRefused, errno, "connect"});
  } else {
    (*made)->expect_writable(true);
  }
  return made;
}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::adopt(Shard& shard, int descriptor,
                                                             Bytes private_data) {
  auto fd = take_over_tcp(descriptor);
  if (!fd) return Unexpected<Error>(fd.error());
  TcpSocket socket(std::move(*fd));
  const std::string peer = to_string(socket.remote());
  auto made = initiator(shard, socket.release(), private_data, peer);
  if (made) (*made)->expect_writable(true);  // which it is at once: the set-up begins
  return made;
}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::accept(Shard& shard, Incoming& incoming,
                                                              Bytes private_data) {
  if (incoming.shard_ == nullptr && !shard.take_connection()) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "accept: too many connections"});
  }
  incoming.shard_ = &shard;
  if (!incoming.setup_->accept(private_data)) {
    return Unexpected<Error>(Error{Errc::kUnsupported, 0, "accept: too much private data"});
  }
  std::unique_ptr<QueuePair> made(new QueuePair(shard, std::move(incoming.socket_),
                                                std::move(incoming.setup_),
                                                std::move(incoming.peer_address_)));
  made->initiator_ = false;
  made->uses_turns_ = true;
  made->state_ = State::kSetup;
  if (!shard.reactor->watch(made->socket_.fd(), EPOLLIN, *made)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "epoll_ctl"});
  }
  // A peer that takes no bytes would keep its place by not reading the Reply.
  shard.reactor->set_deadline(*made, posix::Reactor::now() + shard.options.setup_timeout_responder);
  made->continue_setup();
  return made;
}

Bytes QueuePair::peer_private_data() const noexcept {
  const bool known = setup_->state() == iwarp::MpaSetup::State::kDone;
  return known ? setup_->peer_private_data() : Bytes();
}

// Set-up.

void QueuePair::handle_ready(std::uint32_t events) {
  if (state_ == State::kConnecting) return tcp_connected();
  if (state_ == State::kSetup) return continue_setup();
  if (state_ != State::kOpen) return;
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0) receive();
  if (state_ == State::kOpen && (events & EPOLLOUT) != 0) expect_writable(false);
  transmit();
  note_completions();
}

void QueuePair::tcp_connected() {
  if (const int error = socket_.connect_error(); error != 0) {
    return end({Errc::kRefused, error, "connect"});
  }
  state_ = State::kSetup;
  expect_writable(false);
  if (shard_.capture) socket_.record(*shard_.capture, true);
  continue_setup();
}

void QueuePair::continue_setup() {
  using SetupState = iwarp::MpaSetup::State;
  std::array<std::byte, iwarp::kMpaFrameMax> bytes;
  for (;;) {
    if (const Bytes output = setup_->output(); !output.empty()) {
      const IoResult result = socket_.send({&output, 1});
      // Bytes behind its frame are not read yet, and would wake us all the time.
      if (result.kind == IoResult::Kind::kWouldBlock) return watch_for(EPOLLOUT);
      if (result.kind == IoResult::Kind::kError) {
        return end({Errc::kRefused, result.error, "MPA set-up"});
      }
      setup_->handle_sent(result.size);
      continue;
    }
    if (setup_->state() == SetupState::kDone) return open_stream();
    if (setup_->state() == SetupState::kFailed) return end(error_of(setup_->error()));
    const MutableBytes room = MutableBytes(bytes).first(setup_->bytes_wanted());
    const IoResult result = socket_.receive({&room, 1});
    if (result.kind == IoResult::Kind::kWouldBlock) return expect_writable(false);
    if (result.kind == IoResult::Kind::kBytes) {
      setup_->handle_received(room.first(result.size));
    } else {
      setup_->handle_end_of_stream();
    }
  }
}

void QueuePair::open_stream() {
  shard_.reactor->set_deadline(*this, std::nullopt);
  expect_writable(false);
  const std::size_t segment = socket_.segment_size();
  std::size_t fpdu_size = iwarp::kFpduSizeMax;
  std::size_t alignment = 0;
  if (shard_.options.segment_size_max > 0) {
    fpdu_size = shard_.options.segment_size_max + iwarp::fpdu_size(iwarp::kTaggedSize);
  } else if (segment < kLargeSegment) {
    // One FPDU, one segment. siw wants the CRC in one piece.
    fpdu_size = segment;
    alignment = segment;
  } else {
    uses_turns_ = true;
    if (!initiator_) posting_.read_by_turns(shard_.turn_size);
    socket_.be_on_this_machine(shard_.options.socket_buffer_size);
  }
  stream_.start(setup_->negotiated(), fpdu_size, alignment);
  capabilities_.reads_in_flight_max = setup_->negotiated().ord;
  capabilities_.reads_served_max = setup_->negotiated().ird;
  capabilities_.crc = setup_->negotiated().crc;
  state_ = State::kOpen;
  shard_.open.push_back(this);
  news.report(LinkEvent::kConnected);
  if (!initiator_) may_nudge_ = false;
  transmit();
  note_completions();
}

// Data.

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  // Copies only while the socket takes what it is given, so that little can be left at the end.
  const bool is_open = state_ == State::kOpen;
  const bool may_copy = is_open && !waits_for_room() && !waits_to_send_;
  if (auto posted = posting_.post(batch, is_open, may_copy); !posted) return posted;
  transmit();
  note_completions();
  return {};
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  return posting_.post_receives(buffers, numbers);
}

bool QueuePair::receive_some() {
  if (state_ != State::kOpen) return false;
  const std::uint64_t before = stream_.counters().bytes_received;
  receive();
  transmit();
  note_completions();
  return state_ != State::kOpen || stream_.counters().bytes_received != before;
}

void QueuePair::receive() {
  const std::span<MutableBytes> room(receive_room_);
  std::size_t received = 0;
  for (int i = 0;; ++i) {
    if (i == kReceivesPerTurn || received >= kReceivedPerTurn) {
      shard_.more_to_receive = true;
      break;
    }
    const std::size_t count = stream_.receive_room(room);
    if (count == 0) break;
    const IoResult result = socket_.receive(room.first(count));
    if (result.kind == IoResult::Kind::kWouldBlock) {
      stream_.handle_nothing_received();
      break;
    }
    if (result.kind == IoResult::Kind::kEnd) {
      stream_.handle_end_of_stream();
      break;
    }
    if (result.kind == IoResult::Kind::kError) {
      return end({Errc::kClosed, result.error, "receiving"});
    }
    shard_.moved = true;
    shard_.turn_size.moved(this);
    received += result.size;
    stream_.handle_received(result.size);
    std::size_t asked = 0;
    for (std::size_t k = 0; k < count; ++k) asked += room[k].size();
    if (result.size < asked) break;  // nothing is left; epoll tells when there is more
  }
  settle();
}

// Sends what there is, as far as the socket takes it and the turn goes.
void QueuePair::transmit() {
  const std::span<Bytes> room(send_room_);
  if (std::exchange(turn_, shard_.turn) != shard_.turn) sent_in_turn_ = 0;
  while (state_ == State::kOpen && !waits_for_room() && !waits_to_send_) {
    if (uses_turns_) stream_.set_turn(shard_.turn_size.bytes());
    posting_.split_reads();
    const std::size_t count = stream_.transmit(room);
    if (count == 0) break;
    if (sent_in_turn_ >= kSentPerTurn) {
      wait_for_next_turn();
      break;
    }
    const bool ends_turn = stream_.ends_turn();
    const bool has_long = stream_.has_long();
    const IoResult result = socket_.send(room.first(count));
    if (result.kind == IoResult::Kind::kWouldBlock) {
      expect_writable(true);
      settle();  // a Read that can go on no more may just have been found
    } else if (result.kind == IoResult::Kind::kBytes) {
      shard_.moved = true;
      stream_.handle_sent(result.size);
      settle();
      sent_in_turn_ += result.size;
      shard_.turn_size.moved(this);
      if (has_long && uses_turns_) shard_.turn_size.sent(result.size, posix::Reactor::now());
      if (ends_turn && state_ == State::kOpen) {
        wait_for_next_turn();
        break;
      }
    } else {
      // The peer is gone, but its last words (a Terminate) may still be unread.
      receive();
      return end({Errc::kClosed, result.error, "sending"});
    }
  }
  if (state_ == State::kOpen && may_nudge_ && stream_.counters().fpdus_sent > 0) {
    may_nudge_ = false;
    shard_.reactor->set_deadline(*this, posix::Reactor::now() + shard_.options.first_answer_nudge);
  }
}

void QueuePair::wait_for_next_turn() {
  waits_to_send_ = true;
  shard_.senders.push_back(this);
  if (shard_.is_polled) shard_.reactor->wake();
}

void QueuePair::send_more() {
  waits_to_send_ = false;
  transmit();
  note_completions();
}

void QueuePair::expect_writable(bool wanted) {
  watch_for(wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void QueuePair::watch_for(std::uint32_t events) {
  if (watched_for_ == events) return;
  watched_for_ = events;
  const bool known = shard_.reactor->rewatch(socket_.fd(), events, *this, *this);
  RPCRDMA_ASSERT(known, "a socket that the reactor does not know");
}

void QueuePair::handle_deadline() {
  if (state_ == State::kConnecting) {
    return end({Errc::kTimedOut, 0, "connect: TCP does not get through"});
  }
  if (state_ == State::kSetup) {
    setup_->handle_timeout(posix::Reactor::now());
    if (setup_->state() == iwarp::MpaSetup::State::kFailed) end(error_of(setup_->error()));
    return;
  }
  if (state_ != State::kOpen) return;
  if (terminating_)
    return end(error_of(stream_.cause()));  // the peer does not even take our Terminate
  nudge();
}

// A slow machine needs more than one nudge to notice: each waits twice as long as the one before.
void QueuePair::nudge() {
  if (stream_.counters().bytes_received > 0 || nudges_ == kNudgesMax) return;
  ++nudges_;
  stream_.nudge();
  transmit();
  note_completions();
  if (state_ != State::kOpen) return;
  shard_.reactor->set_deadline(
      *this, posix::Reactor::now() + shard_.options.first_answer_nudge * (1 << nudges_));
}

// Follows the stream where it has gone.
void QueuePair::settle() {
  if (state_ != State::kOpen) return;
  if (stream_.phase() == iwarp::Phase::kClosed) return end(error_of(stream_.cause()));
  if (stream_.phase() == iwarp::Phase::kTerminating && !terminating_) {
    terminating_ = true;
    shard_.reactor->set_deadline(*this, posix::Reactor::now() + shard_.options.linger);
  }
}

void QueuePair::disconnect() noexcept {
  end({Errc::kClosed, 0, "disconnect"}, LinkEvent::kDisconnected);
}

void QueuePair::end(const Error& cause, std::optional<LinkEvent> event) {
  if (state_ == State::kDown) return;
  cause_ = cause;
  const bool is_refused = state_ != State::kOpen;
  news.report(event.value_or(is_refused ? LinkEvent::kRefused : LinkEvent::kDisconnected));
  if (state_ == State::kOpen) std::erase(shard_.open, this);
  const auto tail = stream_.unsent_copies(send_room_);
  stream_.close();
  const bool connected = state_ != State::kConnecting;
  state_ = State::kDown;
  system_calls_ = socket_.system_calls();
  shard_.give_connection();
  if (connected) {
    shard_.linger(std::move(socket_), this, tail);
  } else {
    shard_.reactor->unwatch(socket_.fd(), *this);
    socket_ = TcpSocket();
  }
}

std::optional<Remote> QueuePair::refused_write() const noexcept {
  return stream_.refused_write();
}

Counters QueuePair::counters() const noexcept {
  Counters counters = stream_.counters();
  counters.registrations = posting_.memory().attached();
  counters.attached_bytes = posting_.memory().attached_bytes();
  counters.system_calls = system_calls_ + socket_.system_calls();
  return counters;
}

}  // namespace rpcrdma::rdma::siwarp
