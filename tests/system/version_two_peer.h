// A peer of version two that shares no code with the library: it sends words, and keeps its own
// account of its Receives. The two sides of its connection may be either of client and server.
//
// The queue pair has many large Receives at all times, so that a message that the peer had no
// Receive for arrives and can be named; the account has those that the peer claims to have.
#ifndef RPCRDMA_TESTS_SYSTEM_VERSION_TWO_PEER_H_
#define RPCRDMA_TESTS_SYSTEM_VERSION_TWO_PEER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma/sim/world.h"
#include "rpcrdma/provider.h"
#include "system/version_two_words.h"

namespace rpcrdma::test {

class VersionTwoPeer {
 public:
  explicit VersionTwoPeer(std::unique_ptr<rdma::QueuePair> queue_pair);

  // Posts Receives, in the peer's account.
  void post(std::uint32_t count, std::uint32_t size = 4096);
  // If set, each message that arrives is followed by a new Receive of the size of its own.
  void repost(bool on) { reposts_ = on; }
  std::size_t posted() const { return posted_.size(); }

  void send(const draft::Words& message) { send_bytes(draft::bytes_of(message)); }
  void send_bytes(Bytes message);
  // Exposes a copy of the words, or room for them, once the completion has come.
  void expose(const draft::Words& content, rdma::RemoteAccess access);
  const std::optional<draft::Segment>& exposed() const { return exposed_; }
  draft::Words content_of_exposed() const { return draft::words_of(exposed_memory_); }
  // Writes into the memory of the other side.
  void write(const draft::Words& content, const draft::Segment& to);
  void disconnect() { queue_pair_->disconnect(); }

  // Takes what has arrived.
  void progress();
  bool connected() const { return connected_; }
  bool ended() const { return ended_; }

  // Messages that arrived and were not taken yet; those that do not decode are faults.
  std::deque<draft::Seen> inbox;
  // Takes the oldest message; nullopt: there is none.
  std::optional<draft::Seen> take();
  // How many messages have arrived ever, and of how many bytes the largest one was.
  std::size_t received() const { return received_; }
  std::size_t received_size_max() const { return received_size_max_; }
  // What the other side did against the drafts: sent without a Receive of this side, more than it
  // takes, or what does not decode. One sentence each.
  const std::vector<std::string>& faults() const { return faults_; }
  // Descriptions of messages whose credit word was zero.
  const std::vector<std::string>& zero_credits() const { return zero_credits_; }

 private:
  static constexpr std::uint16_t kPhysical = 48;       // Receives of the queue pair
  static constexpr std::uint32_t kSize = 66'000;       // bytes of each
  static constexpr std::uint32_t kSendRoom = 1 << 20;  // bytes for messages under way

  void post_physical(std::uint16_t number);
  void handle_message(Bytes message);

  std::vector<std::byte> receive_memory_, send_memory_, exposed_memory_;
  std::unique_ptr<rdma::QueuePair> queue_pair_;
  rdma::RegionId receive_region_{}, send_region_{};
  std::uint32_t send_offset_ = 0;
  std::deque<std::uint32_t> posted_;  // sizes, in the order of posting
  bool reposts_ = false;
  bool connected_ = false, ended_ = false;
  std::optional<draft::Segment> exposed_;
  std::size_t received_ = 0, received_size_max_ = 0;
  std::vector<std::string> faults_, zero_credits_;
};

// Virtual time for a peer and a client or server of ours.
class PeerWorld {
 public:
  PeerWorld() : world_(7) {}

  rdma::sim::World& world() { return world_; }
  // Both run inside each step.
  void attend(std::function<void()> progress) { attended_.push_back(std::move(progress)); }
  void forget() { attended_.clear(); }
  // Lets everything happen that needs no time-out: after it both sides wait for each other.
  void settle();
  // Lets time pass until the condition holds; false: not within `limit` of virtual time.
  bool run_until(const std::function<bool()>& condition,
                 std::chrono::seconds limit = std::chrono::seconds(200));
  Instant now() const { return world_.now(); }

 private:
  void progress() {
    for (const auto& each : attended_) each();
  }
  rdma::sim::World world_;
  std::vector<std::function<void()>> attended_;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_VERSION_TWO_PEER_H_
