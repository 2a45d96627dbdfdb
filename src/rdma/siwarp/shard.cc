#include "rdma/siwarp/shard.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace rpcrdma::rdma::siwarp {

std::uint64_t SystemRandom::next() {
  if (used_ == block_.size()) {
    auto* at = reinterpret_cast<std::byte*>(block_.data());
    std::size_t left = sizeof(block_);
    while (left > 0) {
      const ssize_t got = getrandom(at, left, 0);
      RPCRDMA_ASSERT(got > 0 || errno == EINTR, "the kernel gives no random bytes");
      if (got <= 0) continue;
      at += got;
      left -= static_cast<std::size_t>(got);
    }
    used_ = 0;
  }
  // Not kept once given away.
  return std::exchange(block_[used_++], 0);
}

Lingering::Lingering(Shard& shard, TcpSocket socket, posix::Watched* before,
                     std::span<const Bytes> unsent)
    : shard_(shard), socket_(std::move(socket)) {
  for (const Bytes bytes : unsent) unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  send_rest();
  posix::Reactor& reactor = *shard_.reactor;
  const std::uint32_t events = sent_ < unsent_.size() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  const bool is_watched = before != nullptr ? reactor.rewatch(socket_.fd(), events, *before, *this)
                                            : reactor.watch(socket_.fd(), events, *this);
  if (!is_watched) finish();
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + shard_.options.linger);
}

Lingering::~Lingering() {
  if (!shard_.reactor->is_copy()) handle_ready(EPOLLIN);  // the last chance to leave nothing unread
  shard_.reactor->unwatch(socket_.fd(), *this);
}

void Lingering::send_rest() {
  while (sent_ < unsent_.size()) {
    const Bytes rest = Bytes(unsent_).subspan(sent_);
    const IoResult result = socket_.send({&rest, 1});
    if (result.kind == IoResult::Kind::kWouldBlock) return;
    if (result.kind != IoResult::Kind::kBytes) break;  // the peer is gone
    sent_ += result.size;
  }
  sent_ = unsent_.size();
  socket_.finish_sending();
}

void Lingering::handle_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && sent_ < unsent_.size()) {
    send_rest();
    if (sent_ == unsent_.size()) {
      if (!shard_.reactor->rewatch(socket_.fd(), EPOLLIN, *this, *this)) finish();
    }
  }
  std::array<std::byte, 16 * 1024> waste;
  const MutableBytes room(waste);
  // Bounded, so that a peer that sends without end cannot hold us up.
  for (int i = 0; i < 64 && !done_; ++i) {
    const IoResult result = socket_.receive({&room, 1});
    if (result.kind == IoResult::Kind::kWouldBlock) return;
    if (result.kind != IoResult::Kind::kBytes) finish();
  }
}

void Lingering::finish() noexcept {
  done_ = true;
  shard_.has_lingered = true;
}

void Shard::linger(TcpSocket socket, posix::Watched* before, std::span<const Bytes> unsent) {
  if (reactor->is_copy()) {  // the connection is the parent's
    if (before != nullptr) reactor->unwatch(socket.fd(), *before);
    return;
  }
  lingering_.push_back(std::make_unique<Lingering>(*this, std::move(socket), before, unsent));
  // They are not counted as connections. Without a bound of their own, peers that say something
  // wrong again and again would take the descriptors of all others. The oldest goes, but none that
  // still has something to say as long as there are others.
  if (lingering_.size() > options.lingering_max && !end_lingering()) lingering_.pop_front();
}

bool Shard::end_lingering() {
  const auto spare =
      std::ranges::find_if(lingering_, [](const auto& each) { return each->has_sent_all(); });
  if (spare == lingering_.end()) return false;
  lingering_.erase(spare);
  return true;
}

void Shard::reap() {
  if (!std::exchange(has_lingered, false)) return;
  std::erase_if(lingering_, [](const auto& each) { return each->done(); });
}

iwarp::MpaSetup::Options Shard::setup_options(bool initiator) const {
  iwarp::MpaSetup::Options setup_options;
  setup_options.wishes = {options.crc, options.ird, options.ord, options.mpa_revision,
                          iwarp::Rtr::kNone};
  switch (options.peer_to_peer) {
    case PeerToPeer::kOff:
      break;
    case PeerToPeer::kWrite:
      setup_options.wishes.rtr = iwarp::Rtr::kWrite;
      break;
    case PeerToPeer::kRead:
      setup_options.wishes.rtr = iwarp::Rtr::kRead;
      break;
    case PeerToPeer::kSend:
      setup_options.wishes.rtr = iwarp::Rtr::kSend;
      break;
  }
  setup_options.timeout =
      initiator ? options.setup_timeout_initiator : options.setup_timeout_responder;
  return setup_options;
}

iwarp::StreamOptions Shard::stream_options() const {
  return {options.queue_depth, options.exposures, options.ird, options.ord};
}

bool Shard::take_connection() {
  if (connections >= options.connections_max) return false;
  ++connections;
  return true;
}

}  // namespace rpcrdma::rdma::siwarp
