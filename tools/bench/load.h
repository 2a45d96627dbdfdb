// A number of calls of one case that are kept in flight over one client: each that ends starts its
// successor.
#ifndef RPCRDMA_TOOLS_BENCH_LOAD_H_
#define RPCRDMA_TOOLS_BENCH_LOAD_H_

#include <string>
#include <vector>

#include "rpcrdma/client.h"
#include "tools/bench/cases.h"
#include "tools/bench/child.h"
#include "tools/bench/meter.h"

namespace rpcrdma::tools::bench {

class Load {
 public:
  // Receives the calls that have ended: the meter, or else the tally. All outlive the load.
  struct Witness {
    Meter* meter = nullptr;
    Tally* tally = nullptr;
  };
  // Writes send `data`. Throws std::runtime_error if memory cannot be registered.
  Load(Client& client, const Case& what, const Witness& witness, Bytes data);
  ~Load();  // closes the client
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void start();
  void handle_news();  // after Client::wait(), or when wait_fd() is readable
  // Starts no more calls, and waits for those that are under way.
  void stop();
  // Throws when a call has failed or brought the wrong data.
  void check() const;

  // These count during the time that the meter measured.
  std::uint64_t bytes_copied() const { return after_.bytes_copied - before_.bytes_copied; }
  DeviceCosts costs() const;
  // Runs until the meter is over.
  void run();

 private:
  struct Slot {
    Clock::time_point started;
    std::vector<std::byte> place;
    RegisteredMemory registered;
  };

  Clock::time_point now() const {
    return witness_.meter != nullptr ? witness_.meter->now() : round_began_;
  }
  void start(std::size_t index);
  void finish(Reply& reply, Slot& slot);
  std::uint32_t procedure() const;
  void stop(const Error& error) { error_ = what_.name + ": " + error.message(); }

  Client& client_;
  const Case what_;
  const Witness witness_;
  const Bytes data_;
  std::vector<Slot> slots_;
  RegisteredMemory data_registered_;
  std::string error_;
  TransferCounters before_, after_;
  bool stopping_ = false;
  Clock::time_point round_began_;  // without a meter
};

// One call of the case's kind with all of its bytes looked at. Throws when they are wrong.
void check_data(Client& client, const Case& what, Bytes data);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_LOAD_H_
