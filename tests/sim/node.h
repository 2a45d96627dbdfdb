// One actor's provider: the simulator's, with somebody who watches at the seam.
//
// It tells when its actor would be woken on a real machine: something can be polled, its timer has
// come, or wake() was called. The runner lets nobody make progress who would not be woken, so a
// forgotten wake-up shows as a call that never ends.
#ifndef RPCRDMA_TESTS_SIM_NODE_H_
#define RPCRDMA_TESTS_SIM_NODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rdma/sim/provider.h"
#include "rdma/sim/queue_pair.h"
#include "sim/credit_monitor.h"
#include "sim/shard_thread.h"
#include "sim/totals.h"
#include "sim/trace.h"
#include "sim/verdict.h"

namespace rpcrdma::simulation {

class Node;
class StreamWorld;

// A node needs this of the runner.
class Driver {
 public:
  // Lets others act and the time pass until `node` has something to do.
  virtual void wait_for(Node& node) = 0;

 protected:
  ~Driver() = default;
};

class MonitoredQueuePair final : public rdma::QueuePair {
 public:
  MonitoredQueuePair(std::unique_ptr<rdma::sim::QueuePair> inner, Node& node, bool is_client);
  MonitoredQueuePair(const MonitoredQueuePair&) = delete;
  MonitoredQueuePair& operator=(const MonitoredQueuePair&) = delete;
  ~MonitoredQueuePair() override;

  const rdma::Capabilities& capabilities() const noexcept override {
    return inner_->capabilities();
  }
  Expected<work::RegionId, rdma::Error> attach(MutableBytes memory) override;
  Expected<work::RegionId, rdma::Error> attach_read_only(Bytes memory) override;
  void detach(work::RegionId region) override;
  Bytes peer_private_data() const noexcept override { return inner_->peer_private_data(); }
  std::string_view peer_address() const noexcept override { return inner_->peer_address(); }
  Expected<void, rdma::Error> post(std::span<work::Request> batch) override;
  Expected<void, rdma::Error> post_receives(const rdma::ReceiveBuffers& buffers,
                                            std::span<const std::uint16_t> numbers) override;
  void release_receives(std::span<const std::uint16_t> numbers) override {
    inner_->release_receives(numbers);
  }
  std::size_t poll(std::span<rdma::Completion> out) override;
  std::optional<rdma::LinkEvent> poll_link() override;
  bool set_ready_listener(rdma::NewsListener& listener) noexcept override {
    return inner_->set_ready_listener(listener);
  }
  rdma::Error cause() const noexcept override { return inner_->cause(); }
  void disconnect() noexcept override { inner_->disconnect(); }
  rdma::Counters counters() const noexcept override { return inner_->counters(); }

  bool has_news() const noexcept { return inner_->has_news(); }

 private:
  void see_posted(const work::Request& request);
  void see_completed(const rdma::Completion& completion);
  std::vector<std::byte> first_words(const work::Send& send) const;

  std::unique_ptr<rdma::sim::QueuePair> inner_;
  Node& node_;
  const bool is_client_;
  CreditMonitor credits_, backward_credits_;
  std::map<work::RegionId, Bytes> regions_;
  std::map<std::uint64_t, work::Slice> receives_;  // by id of the work; shared ones are nowhere
};

class Node final : public rdma::Provider {
 public:
  struct Shared {  // by all nodes of a simulation
    rdma::sim::World& world;
    Driver& driver;
    Verdict& verdict;
    Totals& totals;
    Trace& trace;
    bool progress_runs_the_world;
    bool loses_wakes;  // deliberately, for tests of the runner
    bool rfc5666 = false;
    StreamWorld* streams = nullptr;  // null: there are none
  };
  // `number`: which of the clients or servers, for the trace. `ahead`: of the world's time; a
  // host's clock counts from when it was started.
  Node(const Shared& shared, bool is_client, std::size_t number, Instant::duration ahead = {});
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() override;

  std::string_view name() const noexcept override { return inner_.name(); }
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> accept(
      std::unique_ptr<rdma::Incoming> request, Bytes private_data) override;
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> connect(std::string_view address,
                                                                  Bytes private_data) override;
  Expected<std::unique_ptr<rdma::Listener>, rdma::Error> listen(std::string_view address) override;
  void progress() override;
  int wait_fd() const noexcept override { return -1; }
  Instant now() const noexcept override { return shared_.world.now() + ahead_; }
  void arm_timer(std::optional<Instant> when) override;
  void wait() override;
  void wake() noexcept override {
    woken_ = !shared_.loses_wakes;
    if (std::this_thread::get_id() != runner_) return;  // of a shard, whose turn others wait for
    if (is_asked_ && thread_.is_there()) thread_.give_turn();
    thread_.wake();
  }
  // Whoever has streams as well, or alone, is woken by what this epoll descriptor watches.
  bool wait_also_for(int epoll) override;
  // Makes the node of a further shard, which the runner gives its turns.
  Expected<std::unique_ptr<Provider>, rdma::Error> make_shard() override;
  // Returns the nodes of further shards, which the server owns.
  const std::vector<Node*>& shards() const noexcept { return shards_; }
  bool is_further_shard() const noexcept { return first_ != nullptr; }
  ShardThread& thread() noexcept { return thread_; }
  // While a further shard is asked for its figures, which wakes it, it has its turn at once: who
  // asks waits for them.
  void set_asked(bool is_asked) noexcept { is_asked_ = is_asked; }

  // Returns whether the actor would be woken.
  bool ready() const noexcept;
  // By the world's time.
  std::optional<Instant> timer() const;
  // Has the world know of timers of streams. Before time passes.
  void arm_timers();
  int epoll() const noexcept { return epoll_; }  // -1: there is none
  bool link_ended() const noexcept { return link_cause_.has_value(); }
  // Why: static text. Precondition: link_ended().
  std::string_view link_cause() const { return link_cause_->operation; }
  // The address of its last connection; empty: there was none.
  const std::string& connected_to() const noexcept { return connected_to_; }
  std::uint32_t connections_made() const noexcept { return connections_made_; }

  bool busy = false;  // its actor is on the stack

 private:
  friend class MonitoredQueuePair;

  Shared shared_;
  rdma::sim::Provider inner_;
  const std::thread::id runner_ = std::this_thread::get_id();
  ShardThread thread_;         // of a further shard
  Node* first_ = nullptr;      // the node of whose server this is a further shard
  std::vector<Node*> shards_;  // further ones
  const bool is_client_;
  const std::size_t number_;
  const Instant::duration ahead_;
  std::vector<MonitoredQueuePair*> queue_pairs_;
  std::string listen_address_;
  std::optional<Instant> timer_;
  int epoll_ = -1;
  bool woken_ = false, is_asked_ = false;
  std::uint32_t connections_made_ = 0;
  std::string connecting_to_, connected_to_;
  // Why the connection of a client was refused or ended, as it knows; until it has another one.
  std::optional<rdma::Error> link_cause_;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_NODE_H_
