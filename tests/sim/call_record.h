// One call as the application sees it: its memory, its time, how it ended, and the checks on it.
#ifndef RPCRDMA_TESTS_SIM_CALL_RECORD_H_
#define RPCRDMA_TESTS_SIM_CALL_RECORD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/client.h"
#include "sim/memory.h"
#include "sim/script.h"
#include "sim/verdict.h"

namespace rpcrdma::simulation {

class ForeignMemory;

class CallRecord {
 public:
  CallRecord(CallScript script, std::size_t client);

  // Writes the arguments and names the places.
  void encode(Call& call);
  // `connections`: how many its client has made so far.
  void started(Instant now, std::chrono::nanoseconds timeout, std::uint32_t connections);
  bool in_flight() const noexcept { return started_ && ends_ == 0; }
  Instant began() const noexcept { return began_; }
  Instant deadline() const noexcept { return deadline_; }
  std::uint32_t connections_before() const noexcept { return connections_before_; }
  const CallScript& script() const noexcept { return script_; }
  std::size_t client() const noexcept { return client_; }

  // I5: exactly once.
  void ended(Verdict& verdict);
  // I6: the results are what the service had, where the call wanted them.
  void check_results(Reply& reply, const ForeignMemory& foreign, Verdict& verdict);
  // I4: whatever a hostile server has answered, what was placed lies in a place of this call. Reads
  // all of it, and returns a sum of that.
  unsigned read_anything(Reply& reply, Verdict& verdict);
  // I4: nothing was written around the memory that was lent, nor into the arguments.
  void check_memory(Verdict& verdict) const;
  // The application is done with the call's memory: nobody else touches it from now on (I3).
  void retire(Verdict& verdict);
  bool retired() const noexcept { return retired_; }

  // For tests of the checkers.
  void break_guard() {
    places_.empty() ? places_.emplace_back(8, 0).break_guard() : places_[0].break_guard();
  }
  void write_late() {
    places_.emplace_back(8, 0).retire(), places_.back().bytes()[0] = std::byte{};
  }

 private:
  void check_result(std::size_t index, Bytes data, bool placed, const ForeignMemory& foreign,
                    Verdict& verdict);
  void broken(Verdict& verdict, int invariant, const std::string& text) const;

  CallScript script_;
  std::size_t client_;
  std::vector<GuardedBlock> arguments_, places_;
  Instant began_{}, deadline_{};
  std::uint32_t connections_before_ = 0;
  bool started_ = false;
  bool retired_ = false;
  int ends_ = 0;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_CALL_RECORD_H_
