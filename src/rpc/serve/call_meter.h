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
#include "rpcrdma/service.h"
#include "rpcrdma/statistics.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// A call as the meter follows it; part of the call.
struct MeteredCall {
  Instant came{};      // its message, or the first part of it
  Instant executed{};  // its service was called
  std::chrono::nanoseconds memory_wait{};
  std::size_t arguments_size = 0;  // bytes
  std::size_t read_chunks = 0;
  bool is_long = false;
  bool is_executed = false;
};

// Reads the clock once for each call, when it is answered. All earlier moments of a call are those
// of the latest reading, which is the beginning of the round, or the answer to the call before.
// Belongs to the thread of its shard.
class CallMeter {
 public:
  using Report = std::function<void(const CallReport&)>;

  // `report` is perhaps empty.
  CallMeter(std::function<Instant()> clock, const Report& report)
      : clock_(std::move(clock)), report_(report) {}

  // Called at the beginning of each round.
  void begin_round(Instant now) noexcept { latest_ = now; }
  // Called for each call in this order, as far as it comes.
  void note_arrival(MeteredCall& call) const noexcept { call = {.came = latest_}; }
  void note_execution(MeteredCall& call) noexcept;
  struct Answer {
    std::string_view peer;
    const oncrpc::CallHeader& header;
    const ProcedureTraits* traits;  // null: of NULL
    AcceptStatus status;
    std::size_t results_size;
  };
  void note_answer(const MeteredCall& call, const Answer& answer, TimeHistogram& of_connection);
  // Called in place of the two above for a call that no service is asked to execute.
  void note_refusal(const oncrpc::ReplyHeader& refusal) noexcept;

  // A call waits for memory from now on, or no longer.
  Instant read_clock() { return latest_ = clock_(); }
  void note_memory_wait(MeteredCall& call, std::chrono::nanoseconds time) noexcept {
    call.memory_wait += time;
    memory_waits_.note(time);
  }

  // Adds what was counted so far.
  void add_to(ServerStatistics& sum) const;

 private:
  struct Program {
    std::uint32_t program, version;
    std::vector<ProcedureStatistics> procedures;  // by their numbers; behind them, if any, kOthers
  };

  Program& program_of(const Procedure& procedure);
  ProcedureStatistics& entry_of(const Procedure& procedure, const ProcedureTraits* traits);

  const std::function<Instant()> clock_;
  const Report& report_;
  Instant latest_{};
  std::vector<Program> programs_;  // in the order in which they were called first
  std::size_t last_ = 0;           // of programs_: that of the latest call
  RefusalCounters refused_;
  TimeHistogram memory_waits_, read_times_, service_times_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CALL_METER_H_
