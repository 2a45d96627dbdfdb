// The state that all objects of one provider share.
#ifndef RPCRDMA_RDMA_SIWARP_SHARD_H_
#define RPCRDMA_RDMA_SIWARP_SHARD_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "iwarp/setup.h"
#include "iwarp/stream_state.h"
#include "posix/reactor.h"
#include "posix/yielding.h"
#include "rdma/siwarp/capture.h"
#include "rdma/siwarp/provider.h"
#include "rdma/siwarp/receive_pool.h"
#include "rdma/siwarp/tcp_socket.h"
#include "rdma/siwarp/turn_size.h"

namespace rpcrdma::rdma::siwarp {

class HalfOpen;
class QueuePair;
class Shard;

// getrandom(2), fetched in blocks. Steering tags are drawn from it: a peer must not be able to
// guess them.
class SystemRandom final : public RandomSource {
 public:
  std::uint64_t next() override;

 private:
  std::array<std::uint64_t, 64> block_{};
  std::size_t used_ = 64;
};

// A connection that is over for its user. It waits for the peer's FIN, so that the kernel does not
// discard our last bytes (it would, if we closed with unread bytes), but not for ever. Before that
// it sends the bytes for which the socket had no room.
class Lingering final : public posix::Watched {
 public:
  Lingering(Shard& shard, TcpSocket socket, posix::Watched* before, std::span<const Bytes> unsent);
  ~Lingering() override;
  Lingering(const Lingering&) = delete;
  Lingering& operator=(const Lingering&) = delete;
  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override { finish(); }
  bool done() const noexcept { return done_; }
  bool has_sent_all() const noexcept { return sent_ == unsent_.size(); }

 private:
  void send_rest();
  void finish() noexcept;

  Shard& shard_;
  TcpSocket socket_;
  std::vector<std::byte> unsent_;
  std::size_t sent_ = 0;  // bytes of unsent_ that the socket has taken meanwhile
  bool done_ = false;
};

// Gives memory of messages back to the system that no round has needed for a while.
class SpareReceives final : public posix::Watched {
 public:
  SpareReceives(posix::Reactor& reactor, ReceivePool& pool) : reactor_(reactor), pool_(pool) {}
  ~SpareReceives() override { reactor_.set_deadline(*this, std::nullopt); }
  SpareReceives(const SpareReceives&) = delete;
  SpareReceives& operator=(const SpareReceives&) = delete;

  // To be called in each round, behind all that takes messages: when they come back, perhaps no
  // further round follows.
  void look() {
    if (pool_.has_more() && !is_due_) [[unlikely]]
      set_due();
  }

 private:
  static constexpr std::chrono::milliseconds kPeriod{250};
  [[gnu::noinline]] void set_due() {
    is_due_ = true;
    reactor_.set_deadline(*this, posix::Reactor::now() + kPeriod);
  }
  void handle_deadline() override {
    is_due_ = false;
    pool_.trim();
  }

  posix::Reactor& reactor_;
  ReceivePool& pool_;
  bool is_due_ = false;  // the reactor has a deadline of it
};

class Shard {
 public:
  // `record`: what connections carry; null: nowhere. It outlives the shard.
  Shard(const Options& given, std::unique_ptr<posix::Reactor> made, Capture* record)
      : options(given), reactor(std::move(made)), capture(record) {}

  // Ends the sending direction, behind what is `unsent` (copied), and keeps the socket for a while.
  // `before`: in whose name the reactor knows it, null if it does not.
  void linger(TcpSocket socket, posix::Watched* before, std::span<const Bytes> unsent = {});
  // Closes the one that lingers longest of those that have sent all. False: there is none.
  bool end_lingering();
  void reap();                // closes what has lingered long enough
  bool has_lingered = false;  // something has, since the last reap()

  iwarp::MpaSetup::Options setup_options(bool initiator) const;
  iwarp::StreamOptions stream_options() const;
  bool take_connection();  // false: as many as allowed are open
  void give_connection() { --connections; }

  const Options options;
  const std::unique_ptr<posix::Reactor> reactor;
  Capture* const capture;
  SystemRandom random;
  iwarp::BlockPool blocks;
  ReceivePool receives;
  SpareReceives spare_receives{*reactor, receives};
  SetupCounters setup;
  posix::Yielding yielding;
  std::size_t connections = 0;
  std::list<HalfOpen*> half_open;   // of all listeners, oldest first
  std::vector<QueuePair*> open;     // that carry a stream
  std::vector<QueuePair*> news;     // that may have something to poll since the last progress()
  std::vector<QueuePair*> senders;  // that have more to send than a turn is for
  // Somebody polls wait_fd(), who does not know of `senders`: others find them by wait() or
  // linger().
  mutable bool is_polled = false;
  std::uint64_t turn = 0;  // counts up with each progress()
  // How much of a long message one turn has, and of long Reads one request. Connections use it that
  // were accepted here, or whose peer is on this machine.
  TurnSize turn_size;
  // A turn to receive ended before the socket was empty. If the thread waited now, the peer would
  // fill the socket, and the data would leave the cache before it is read: Reads of 1 MiB at depth
  // 8 went half as fast.
  bool more_to_receive = false;
  bool moved = false;                          // bytes came or went since the last wait
  std::array<iwarp::CopiedSend, 64> copies{};  // scratch of QueuePair::post()

 private:
  std::deque<std::unique_ptr<Lingering>> lingering_;  // oldest first
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_SHARD_H_
