// The simulated world: virtual time, everything that is going to happen in it, and what went wrong.
//
// All providers of a world share its time. Nothing happens by itself: step(), or progress() and
// wait() of a provider, let it happen. The same seed, options and calls give the same world. One
// thread.
#ifndef RPCRDMA_RDMA_SIM_WORLD_H_
#define RPCRDMA_RDMA_SIM_WORLD_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "rdma/sim/options.h"
#include "rpcrdma/steering_tag.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rdma::sim {

class Listener;
class Provider;
class QueuePair;

// A message as it leaves a queue pair, for tests that compare what two builds send.
struct Departure {
  enum class Kind : std::uint8_t { kSetup, kSend, kWrite, kRead, kReadResponse, kEnd };
  std::uint64_t from;  // World::QueuePairId
  Kind kind;
  Bytes data;            // of kSetup: the private data; valid during the call only
  SteeringTag handle{};  // kSend: invalidated, if `has_handle`; kWrite, kRead: of the peer's memory
  bool has_handle = false;
  std::uint64_t offset = 0;  // kWrite, kRead
  std::uint64_t size = 0;    // kRead: bytes asked for
};

// Outlives its providers and all that they made.
class World {
 public:
  explicit World(std::uint64_t seed, const Options& options = {});
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  Instant now() const noexcept { return now_; }
  // Lets the next event happen, and the time pass to it. False: nothing is going to happen.
  bool step();
  // Lets happen what is due now.
  void run_due();
  // When the next event is; nullopt: never.
  std::optional<Instant> next_event() const;
  // Lets the time pass to the next event or to the first timer that a provider armed, which is then
  // disarmed. False: there is neither.
  bool pass_time();

  // Mistakes of our own side that no correct stack makes: a Send without a Receive to take it, work
  // that names memory out of range, too many Reads. One sentence each; expected to be empty.
  const std::vector<std::string>& violations() const noexcept { return violations_; }
  std::uint64_t events() const noexcept { return events_; }
  // The devices that are listened on go: no address is listened at any more. Connections stay.
  void remove_listening_devices();
  // Sees each message that any queue pair sends; to be set before there is one.
  void observe(std::function<void(const Departure&)> observer) { observer_ = std::move(observer); }
  // No fault happens any more; for checks that everything ends well then.
  void stop_faults();

  // --- For the parts of the simulator.

  using EventKey = std::pair<Instant, std::uint64_t>;
  using QueuePairId = std::uint64_t;  // never used twice; 0 names none

  const Options& options() const noexcept { return options_; }
  SeededRandom& random() noexcept { return random_; }
  // One in `n`, never for 0.
  bool draw_fault(std::uint32_t n) { return n != 0 && random_.one_in(n); }
  // Draws how long one step of work takes.
  std::chrono::nanoseconds draw_latency();
  // Events of one time happen in the order in which they were asked for.
  EventKey at(Instant when, std::function<void()> action);
  void cancel(const EventKey& key) { agenda_.erase(key); }
  EventKey after(std::chrono::nanoseconds delay, std::function<void()> action) {
    return at(now_ + delay, std::move(action));
  }
  // Does the same, but not before `*last`, which is moved on: for events that must stay in order.
  EventKey after_in_order(std::chrono::nanoseconds delay, Instant* last,
                          std::function<void()> action);

  void violation(std::string_view text);
  void departed(const Departure& departure) const {
    if (observer_) observer_(departure);
  }
  // A tag that looks random and is given out once in the life of the world.
  SteeringTag new_tag();
  std::uint64_t new_address();  // 48 bits

  // Messages in memory that queue pairs share. False: more than Options allow.
  bool count_shared_message(int more) noexcept {
    shared_messages_ += more;
    return options_.shared_messages_max == 0 ||
           shared_messages_ <= static_cast<std::int64_t>(options_.shared_messages_max);
  }
  QueuePairId add(QueuePair* queue_pair);
  void remove(QueuePairId id) { queue_pairs_.erase(id); }
  QueuePair* find(QueuePairId id) const;  // null: gone

  // The address with a real port in place of port 0; nullopt: somebody listens there already.
  std::optional<std::string> add_listener(std::string address, Listener* listener);
  void remove_listener(const std::string& address) { listeners_.erase(address); }
  Listener* find_listener(const std::string& address) const;  // null: none
  std::string new_ephemeral_address(std::string_view host);

  void add(Provider* provider) { providers_.push_back(provider); }
  void remove(Provider* provider) { std::erase(providers_, provider); }

 private:
  void break_some_connection();

  Options options_;
  SeededRandom random_;
  Instant now_{std::chrono::seconds(1)};  // not zero, so that zero is not a time by chance
  std::map<EventKey, std::function<void()>> agenda_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t events_ = 0;
  std::int64_t shared_messages_ = 0;
  std::vector<std::string> violations_;
  std::function<void(const Departure&)> observer_;
  std::map<QueuePairId, QueuePair*> queue_pairs_;
  QueuePairId next_queue_pair_ = 1;
  std::map<std::string, Listener*> listeners_;
  std::uint32_t next_port_ = 40000;
  std::vector<Provider*> providers_;
  std::uint32_t tags_given_ = 0;
  std::uint64_t tag_key_;  // of the permutation that hides the count
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_WORLD_H_
