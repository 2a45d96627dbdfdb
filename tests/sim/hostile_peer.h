// A client that keeps no rule: it makes Calls of its own words with any chunks, changes some of
// them, sends nonsense, exceeds its credits, lets RDMA Reads of its memory wait, and goes.
#ifndef RPCRDMA_TESTS_SIM_HOSTILE_PEER_H_
#define RPCRDMA_TESTS_SIM_HOSTILE_PEER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/random.h"
#include "rdma/sim/provider.h"
#include "rpcrdma/service.h"
#include "sim/hostile_link.h"
#include "sim/service.h"
#include "sim/totals.h"

namespace rpcrdma::simulation {

inline constexpr std::uint32_t kHostileProgram = 0x2f35a6c9;

// The program that hostile peers call: it takes any arguments, reads all of them, and has some
// results.
class HostileProgram final : public Service {
 public:
  static constexpr std::uint32_t kArgumentMax = 200'000;  // bytes

  // All outlive it.
  HostileProgram(const ForeignMemory& foreign, SeededRandom& random, Totals& totals)
      : foreign_(foreign), random_(random), totals_(totals) {}
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  void call(CallContext& context) override;

 private:
  const ForeignMemory& foreign_;
  SeededRandom& random_;
  Totals& totals_;
};

class HostilePeer {
 public:
  // All outlive it. `number`: no other in this world has it.
  HostilePeer(rdma::sim::World& world, SeededRandom& random, Totals& totals, std::size_t number);
  HostilePeer(const HostilePeer&) = delete;
  HostilePeer& operator=(const HostilePeer&) = delete;

  // Does the next thing to the server at this address, which need not be there.
  void act(const std::string& address);
  // In turn, with time for the server in between: has a connection to the server at this address,
  // or to another one; takes what has come; makes Calls with Read chunks, of whose bytes the server
  // gets none.
  void come(const std::string& address);
  void take_news();
  void make_server_wait();
  HostileLink& link() noexcept { return link_; }
  const HostileLink& link() const noexcept { return link_; }

 private:
  using Words = HostileLink::Words;
  using Segment = HostileLink::Segment;

  void act_on_connection();
  Words make_right_call(std::uint32_t size);
  Words make_call();
  static void add_call(Words& words, std::uint32_t xid, std::uint32_t procedure,
                       std::uint32_t flavor);
  void add_read_list(Words& words);
  void add_write_chunk(Words& words);

  SeededRandom& random_;
  rdma::sim::Provider provider_;
  HostileLink link_;
  bool is_patient_ = false;  // it makes one Call at a time, so that it keeps its connection longer
  bool has_answer_ = true;
  std::uint32_t version_ = 1;
  std::uint32_t next_xid_ = 0;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_HOSTILE_PEER_H_
