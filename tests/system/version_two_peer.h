// Speaks version two as a peer that shares no code with the library: it sends words, and keeps its
// own account of its Receives. It may be the client or the server of its connection.
//
// The queue pair has many large Receives at all times, so that a message that the peer had no
// Receive for still arrives and can be named. The account has those that the peer claims to have.
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

  // Adds Receives to the peer's account.
  void post(std::uint32_t count, std::uint32_t size = 4096);
  // If on, a Receive that a message has used comes back at once, with the same size.
  void repost(bool on) { reposts_ = on; }
  std::size_t posted() const { return posted_.size(); }

  void send(const draft::Words& message) { send_bytes(draft::bytes_of(message)); }
  void send_bytes(Bytes message);
  // Begins to expose a copy of the words; exposed() has its segment once that is done. Once only.
  void expose(const draft::Words& content, rdma::RemoteAccess access);
  const std::optional<draft::Segment>& exposed() const { return exposed_; }
  draft::Words content_of_exposed() const { return draft::words_of(exposed_memory_); }
  // Lists the handles that the other side has invalidated with its messages.
  const std::vector<std::uint32_t>& invalidated() const { return invalidated_; }
  // Writes into memory of the other side.
  void write(const draft::Words& content, const draft::Segment& to);
  void disconnect() { queue_pair_->disconnect(); }

  // Takes all messages that have arrived into `inbox`.
  void progress();
  bool connected() const { return connected_; }
  bool ended() const { return ended_; }

  // Holds the messages that were not taken yet; those that do not decode are faults instead.
  std::deque<draft::Seen> inbox;
  // Removes the oldest message of `inbox`; nullopt: there is none.
  std::optional<draft::Seen> take();
  // Count all messages that ever arrived, and give the bytes of the largest one.
  std::size_t received() const { return received_; }
  std::size_t received_size_max() const { return received_size_max_; }
  // Lists what the other side did against the drafts, one sentence each: its messages that found no
  // Receive, did not fit theirs, or do not decode.
  const std::vector<std::string>& faults() const { return faults_; }
  // Lists the messages whose credit word was zero.
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
  std::vector<std::uint32_t> invalidated_;
  std::vector<std::string> faults_, zero_credits_;
};

// Gives virtual time to a peer and a client or server of ours.
class PeerWorld {
 public:
  PeerWorld() : world_(7) {}

  rdma::sim::World& world() { return world_; }
  // Adds a function that runs in each step.
  void attend(std::function<void()> progress) { attended_.push_back(std::move(progress)); }
  void forget() { attended_.clear(); }
  // Lets so many events happen, or all that are left.
  void step(std::uint32_t count);
  // Lets everything happen that needs no time-out. Afterwards each side waits for the other.
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
