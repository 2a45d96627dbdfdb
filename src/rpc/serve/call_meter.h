// Measures the calls of one shard: how many of which procedure, and how long they took.
#ifndef RPCRDMA_RPC_SERVE_CALL_METER_H_
#define RPCRDMA_RPC_SERVE_CALL_METER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "oncrpc/message.h"
#include "rpc/serve/round_time.h"
#include "rpcrdma/service.h"
#include "rpcrdma/statistics.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// A call as the meter follows it; part of the call.
struct MeteredCall {
  Instant came{};      // its message, or the first part of it
  Instant executed{};  // its last wait was over, or it came: its service was called
  std::chrono::nanoseconds memory_wait{};
  std::size_t arguments_size = 0;  // bytes
  std::size_t read_chunks = 0;
  bool is_long = false;
};

// Reads the clock once for each call, when it is answered. All earlier moments of a call are those
// of the latest reading, which is the beginning of the round, or the answer to the call before.
// Belongs to the thread of its shard.
class CallMeter {
 public:
  using Report = std::function<void(const CallReport&)>;

  // An empty `report` reports nothing.
  CallMeter(Clock clock, const Report& report)
      : clock_(clock), report_(report), reports_(report != nullptr) {}

  // Called at the beginning of each round.
  void begin_round(Instant now) noexcept { latest_ = now; }
  // Called for each call in this order, as far as it comes. The longer ones are not inlined: a
  // server that measures nothing should not have them between its own instructions.
  void note_arrival(MeteredCall& call) const noexcept {
    call.came = call.executed = latest_;
    call.memory_wait = {};
    call.read_chunks = 0;
    call.is_long = false;
  }
  // Called when the last Read chunk of the call has come.
  [[gnu::noinline]] void note_reads(MeteredCall& call) noexcept;
  // Called when the call has waited for something else. A call that never waits is taken to be
  // executed when it comes.
  void note_wait_over(MeteredCall& call) const noexcept { call.executed = latest_; }
  // Returns whether report(), which may be called behind it, has somebody to report to.
  [[gnu::noinline]] bool note_answer(const MeteredCall& call, const oncrpc::CallHeader& header,
                                     const ProcedureTraits* traits, AcceptStatus status,
                                     TimeHistogram& of_connection);
  void report(const MeteredCall& call, CallReport report) const;
  // Called in place of the others for a call that no service is asked to execute.
  [[gnu::noinline]] void note_refusal(const oncrpc::ReplyHeader& refusal) noexcept;

  // Called when a call begins to wait for memory, and when it no longer does.
  Instant read_clock() { return latest_ = clock_.now(clock_.of); }
  [[gnu::noinline]] void note_memory_wait(MeteredCall& call,
                                          std::chrono::nanoseconds time) noexcept;

  // Adds what was counted so far.
  void add_to(ServerStatistics& sum) const;

 private:
  struct Program {
    std::uint32_t program, version;
    std::vector<ProcedureStatistics> procedures;  // by their numbers; behind them, if any, kOthers
  };

  Program& program_of(const Procedure& procedure);
  ProcedureStatistics& entry_of(const Procedure& procedure, const ProcedureTraits* traits) {
    if (latest_entry_ != nullptr && procedure == latest_procedure_) [[likely]]
      return *latest_entry_;
    return find_entry(procedure, traits);
  }
  [[gnu::noinline]] ProcedureStatistics& find_entry(const Procedure& procedure,
                                                    const ProcedureTraits* traits);

  const Clock clock_;
  const Report& report_;
  const bool reports_;
  Instant latest_{};
  std::vector<Program> programs_;  // in the order in which they were called first
  // The next call is most often one of the same procedure as the call before.
  Procedure latest_procedure_{};
  ProcedureStatistics* latest_entry_ = nullptr;
  RefusalCounters refused_;
  TimeHistogram memory_waits_, read_times_, service_times_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CALL_METER_H_
