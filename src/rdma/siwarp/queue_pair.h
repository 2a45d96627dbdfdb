// One connection: a TCP socket, its MPA set-up, then its stream.
#ifndef RPCRDMA_RDMA_SIWARP_QUEUE_PAIR_H_
#define RPCRDMA_RDMA_SIWARP_QUEUE_PAIR_H_

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "iwarp/setup.h"
#include "iwarp/stream.h"
#include "rdma/news.h"
#include "rdma/siwarp/listener.h"
#include "rdma/siwarp/posting.h"
#include "rdma/siwarp/shard.h"

namespace rpcrdma::rdma::siwarp {

class QueuePair final : public rdma::QueuePair, private posix::Watched {
 public:
  // Opens the active side. If the peer cannot be reached, an event reports it later, not this
  // function.
  static Expected<std::unique_ptr<QueuePair>, Error> connect(Shard& shard,
                                                             const posix::Address& address,
                                                             Bytes private_data);
  // Opens the active side on an existing connection.
  static Expected<std::unique_ptr<QueuePair>, Error> adopt(Shard& shard, int descriptor,
                                                           Bytes private_data);
  // The passive side. kUnsupported when the private data does not fit.
  static Expected<std::unique_ptr<QueuePair>, Error> accept(Shard& shard, Incoming& incoming,
                                                            Bytes private_data);
  ~QueuePair() override;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Expected<RegionId, Error> attach(MutableBytes memory) override {
    return posting_.memory().attach(memory, memory.data());
  }
  Expected<RegionId, Error> attach_read_only(Bytes memory) override {
    return posting_.memory().attach(memory, nullptr);
  }
  void detach(RegionId region) override { posting_.memory().detach(region); }
  Bytes peer_private_data() const noexcept override;
  std::string_view peer_address() const noexcept override { return peer_address_; }
  Expected<void, Error> post(std::span<work::Request> batch) override;
  Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                      std::span<const std::uint16_t> numbers) override;
  void release_receives(std::span<const std::uint16_t> numbers) override {
    posting_.release_receives(numbers);
  }
  std::size_t poll(std::span<Completion> out) override { return posting_.poll(out); }
  std::optional<LinkEvent> poll_link() override { return news.poll(); }
  bool set_ready_listener(NewsListener& listener) noexcept override {
    news.set_listener(listener);
    return true;
  }
  Error cause() const noexcept override { return cause_; }
  std::optional<Remote> refused_write() const noexcept override;
  bool refused_unnamed_write() const noexcept override { return stream_.refused_unnamed_write(); }
  void disconnect() noexcept override;
  Counters counters() const noexcept override;

  // Receives what has come; true if there was anything. For waiting actively.
  bool receive_some();
  // Takes the connection's next turn to send.
  void send_more();
  // Completions or events that are there to be polled.
  bool has_news() const noexcept { return stream_.has_completions() || news.has_event(); }
  News<QueuePair> news;

 private:
  enum class State : std::uint8_t {
    kConnecting,  // waits for TCP; the socket or the deadline moves it on
    kSetup,       // waits for the MPA set-up; the peer or the deadline moves it on
    kOpen,        // carries a stream
    kDown,        // over; the socket is gone
  };

  QueuePair(Shard& shard, TcpSocket socket, std::unique_ptr<iwarp::MpaSetup> setup,
            std::string peer_address);
  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override;

  static Expected<std::unique_ptr<QueuePair>, Error> initiator(Shard& shard, posix::Fd fd,
                                                               Bytes private_data,
                                                               std::string peer_address);
  void tcp_connected();
  void continue_setup();
  void open_stream();
  void receive();
  void transmit();
  void nudge();
  void settle();
  void expect_writable(bool wanted);
  void watch_for(std::uint32_t events);
  bool waits_for_room() const noexcept { return (watched_for_ & EPOLLOUT) != 0; }
  void wait_for_next_turn();
  // Room in a queue that was full is news, too: unsignaled work ends without a completion.
  void note_completions() {
    if (posting_.take_was_full() || stream_.has_completions()) news.report();
  }
  void end(const Error& cause, std::optional<LinkEvent> event = std::nullopt);

  bool takes_work() const noexcept {
    return state_ != State::kDown && stream_.phase() != iwarp::Phase::kTerminating;
  }

  Shard& shard_;
  TcpSocket socket_;
  std::unique_ptr<iwarp::MpaSetup> setup_;
  std::string peer_address_;
  Capabilities capabilities_;
  Posting posting_;  // has memory that the stream uses
  iwarp::Stream stream_;
  State state_ = State::kConnecting;
  bool initiator_;
  bool uses_turns_ = false;  // of TurnSize: it accepted, or its peer is on this machine
  std::uint32_t watched_for_ = EPOLLIN;
  bool waits_to_send_ = false;  // is in Shard::senders
  bool terminating_ = false;    // the deadline is that of our Terminate
  bool may_nudge_;              // nothing was sent yet that could be overlooked
  int nudges_ = 0;
  Error cause_{Errc::kClosed, 0, ""};
  std::uint64_t turn_ = 0;          // Shard::turn when something was sent last
  std::size_t sent_in_turn_ = 0;    // bytes
  std::uint64_t system_calls_ = 0;  // of the socket, once it is gone
  // Kept, since a span clears itself when it is made.
  std::array<Bytes, TcpSocket::kRoomMax> send_room_;
  std::array<MutableBytes, kSlicesMax + 2> receive_room_;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_QUEUE_PAIR_H_
