// The passive side: TCP connections that arrive, their MPA set-up, and their way to the user.
#ifndef RPCRDMA_RDMA_SIWARP_LISTENER_H_
#define RPCRDMA_RDMA_SIWARP_LISTENER_H_

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "iwarp/setup.h"
#include "rdma/siwarp/shard.h"

namespace rpcrdma::rdma::siwarp {

class Listener;

// A connection whose MPA Request is not complete; the peer has until its deadline.
class HalfOpen final : public posix::Watched {
 public:
  HalfOpen(Listener& listener, Shard& shard, TcpSocket socket, std::string peer_address);
  ~HalfOpen() override;
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;
  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override;
  TcpSocket& socket() noexcept { return socket_; }
  bool ended() const noexcept { return ended_; }
  void evict();

 private:
  friend class Incoming;
  void judge();

  Listener& listener_;
  Shard& shard_;
  TcpSocket socket_;
  // As accept() said: the socket does not tell it any more once the peer has reset the connection.
  std::string peer_address_;
  std::unique_ptr<iwarp::MpaSetup> setup_;
  const std::list<HalfOpen*>::iterator age_;  // in Shard::half_open
  bool ended_ = false;
};

// A complete Request that waits for the user's answer. Not watched meanwhile: a peer that is gone
// shows when we answer.
class Incoming final : public rdma::Incoming {
 public:
  Incoming(Shard& shard, HalfOpen& half_open);
  ~Incoming() override;  // refuses, but not in a child: its parent may accept
  Bytes private_data() const noexcept override { return setup_->peer_private_data(); }
  std::string_view peer_address() const noexcept override { return peer_address_; }
  bool receives_are_elastic() const noexcept override { return receives_are_elastic_; }
  bool detach() override;

 private:
  friend class QueuePair;

  Shard* shard_;  // null: it has left
  TcpSocket socket_;
  std::unique_ptr<iwarp::MpaSetup> setup_;
  std::string peer_address_;
  const bool receives_are_elastic_;  // of all shards
  const posix::BornHere born_{};
};

class Listener final : public rdma::Listener, private posix::Watched {
 public:
  static Expected<std::unique_ptr<Listener>, Error> open(Shard& shard,
                                                         const posix::Address& address);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  std::unique_ptr<rdma::Incoming> poll_incoming() override;
  std::string_view address() const noexcept override { return address_; }
  Expected<void, Error> adopt(int descriptor) override;
  bool can_adopt() const noexcept override { return true; }
  std::optional<Error> poll_refusal() override { return std::exchange(refusal_, std::nullopt); }

 private:
  friend class HalfOpen;
  Listener(Shard& shard, posix::Fd fd, std::string address);
  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override;
  // Lets kExhaustedRest pass before the next accept(), which failed with `error`.
  void rest(int error);
  void take(posix::Fd fd, std::string peer_address);
  void reap();

  Shard& shard_;
  posix::Fd fd_;
  std::string address_;
  std::list<std::unique_ptr<HalfOpen>> half_open_;  // oldest first
  std::deque<std::unique_ptr<Incoming>> incoming_;
  std::optional<Error> refusal_;
  Instant reports_at_{};  // when a lack of descriptors is worth a further report
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_LISTENER_H_
