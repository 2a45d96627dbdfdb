// A server that keeps no rule: its replies are right, wrong or none, name chunks of any size, and
// it writes to, reads and invalidates memory of its clients whether they let it or not.
#ifndef RPCRDMA_TESTS_SIM_HOSTILE_SERVER_H_
#define RPCRDMA_TESTS_SIM_HOSTILE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "rdma/sim/provider.h"
#include "sim/hostile_link.h"
#include "sim/totals.h"

namespace rpcrdma::simulation {

class HostileServer {
 public:
  // All outlive it.
  HostileServer(rdma::sim::World& world, SeededRandom& random, Totals& totals);
  HostileServer(const HostileServer&) = delete;
  HostileServer& operator=(const HostileServer&) = delete;

  const std::string& address() const noexcept { return address_; }
  // Takes connections, and answers the Calls that have come.
  void act();
  // Clients that come from now on are refused; those that are there hear no more.
  void stop_listening() noexcept { listener_.reset(); }
  void leave() noexcept;

 private:
  using Words = HostileLink::Words;
  using Segment = HostileLink::Segment;

  // The memory that a Call offers.
  struct Offer {
    std::vector<Segment> readable;
    std::vector<std::vector<Segment>> writes;  // by chunk
    std::vector<Segment> reply;

    std::vector<Segment> all() const;
  };

  void accept();
  void answer(HostileLink& link, const Words& call);
  void use_memory(HostileLink& link, const Offer& offer);
  Words make_reply(HostileLink& link, const Words& call, const Offer& offer);
  void add_lists(HostileLink& link, Words& words, const Offer& offer);
  void add_chunk(HostileLink& link, Words& words, const std::vector<Segment>& offered);
  static Offer offer_of(const Words& call);

  SeededRandom& random_;
  Totals& totals_;
  rdma::sim::Provider provider_;
  std::unique_ptr<rdma::Listener> listener_;
  std::string address_;
  std::vector<std::unique_ptr<HostileLink>> links_;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_HOSTILE_SERVER_H_
