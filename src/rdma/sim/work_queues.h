// The work of one simulated queue pair, from its posting until its completion is polled.
#ifndef RPCRDMA_RDMA_SIM_WORK_QUEUES_H_
#define RPCRDMA_RDMA_SIM_WORK_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "rdma/news.h"
#include "rdma/sim/world.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::sim {

using Serial = std::uint64_t;  // of work: in order of posting, never used twice

struct PostedReceive {
  std::uint64_t id;
  std::vector<Slice> into;
  std::uint64_t size;  // bytes that it takes
};
// A Send, Write or Read on its way.
struct Outgoing {
  enum class Kind : std::uint8_t { kSend, kWrite, kRead };
  std::uint64_t id;
  bool signaled;
  Kind kind;
  std::vector<Slice> slices;  // read from; with kRead: written to, just one
  Remote remote{};
  std::optional<SteeringTag> invalidate{};
  bool arrived = false;               // the peer has taken it
  Status failure = Status::kFlushed;  // how it completes when the connection ends first
};
struct Local {  // an Expose or a Revoke
  std::uint64_t id;
  bool signaled;
  std::variant<Expose, Revoke> work;
};

// Messages in memory that the queue pairs of a world share, by the numbers of their Receives.
// Memory that was given back is poisoned, and stays.
class SharedMessages {
 public:
  explicit SharedMessages(World& world) noexcept : world_(world) {}
  ~SharedMessages() {
    for (const auto& [number, message] : messages_) give_back(number);
  }
  SharedMessages(const SharedMessages&) = delete;
  SharedMessages& operator=(const SharedMessages&) = delete;

  const std::byte* hold(std::uint64_t number, std::vector<std::byte> data);
  void give_back(std::uint64_t number);

 private:
  struct Message {
    std::vector<std::byte> data;
    bool is_held = false;
  };

  World& world_;
  std::map<std::uint64_t, Message> messages_;
};

// Knows neither memory nor the peer: the queue pair executes the work.
class WorkQueues {
 public:
  // `news` hears of completions. Both outlive it.
  WorkQueues(const Capabilities& capabilities, News<QueuePair>& news)
      : capabilities_(capabilities), news_(news) {}

  // Returns why there is no room for the batch now, and then reports when there may be some.
  // `exposures` are those that exist, of `exposures_max`.
  std::optional<Error> find_no_room(std::span<const work::Request> batch, std::size_t exposures,
                                    std::size_t exposures_max);
  bool has_room_for_receives(std::size_t count) const noexcept {
    return receives_.size() + received_unpolled_ + count <= capabilities_.queue_depth_max;
  }

  void add(PostedReceive receive) { receives_.push_back(std::move(receive)); }
  Serial add(Outgoing outgoing);
  Serial add(Local local);
  // Returns the number of work that leaves at once, and is done.
  Serial skip() noexcept { return next_serial_++; }
  // Returns whether a Send leaves at once: every other one that has nothing before it.
  bool skips_next() const noexcept { return outgoing_.empty() && next_serial_ % 2 == 0; }

  bool has_receive() const noexcept { return !receives_.empty(); }
  bool has_receive(std::uint64_t id) const;
  PostedReceive take_receive();
  Outgoing* find(Serial serial);                   // null: flushed, or complete
  std::optional<Local> take_local(Serial serial);  // nullopt: flushed
  bool refers_to(RegionId region) const;

  void complete(Serial serial);
  // Completes local work, and Receives.
  void push(const Completion& completion, bool signaled);
  void push_received(const Completion& completion);
  // Completes all that is left. `known_done`: Sends and Writes that the peer has taken are known to
  // be done.
  void flush(bool known_done);

  std::size_t poll(std::span<Completion> out);
  bool has_completions() const noexcept { return !completions_.empty(); }

 private:
  struct Completed {
    Completion completion;
    bool of_receive;
  };

  const Capabilities& capabilities_;
  News<QueuePair>& news_;
  Serial next_serial_ = 1;
  std::deque<PostedReceive> receives_;
  std::map<Serial, Outgoing> outgoing_;
  std::map<Serial, Local> local_;
  std::uint32_t reads_in_flight_ = 0;  // of outgoing_
  bool was_full_ = false;              // when something was posted last
  std::deque<Completed> completions_;  // can be polled
  std::size_t received_unpolled_ = 0;  // of completions_
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_WORK_QUEUES_H_
