// One call: what is asked, what the service shall do, and how that may end.
#ifndef RPCRDMA_TESTS_SIM_SCRIPT_H_
#define RPCRDMA_TESTS_SIM_SCRIPT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/options.h"
#include "sim/plan.h"

namespace rpcrdma::simulation {

inline constexpr std::uint32_t kProgram = 0x20010009;
inline constexpr std::uint32_t kVersion = 1;
enum ProcedureNumber : std::uint32_t {
  kNull = 0,
  kWork = 1,        // does what the arguments say
  kWorkNoBulk = 2,  // the same, but takes no bulk arguments
  kWorkSmall = 3,   // the same, but takes small bulk arguments only
  kProcedures = 4,
};
inline constexpr std::uint32_t kBulkMax = 2U << 20U;       // of kWork, bytes
inline constexpr std::uint32_t kSmallBulkMax = 1000;       // of kWorkSmall, bytes
inline constexpr std::uint32_t kForeignSize = 1'300'000;   // of the service's own memory, bytes
inline constexpr std::uint64_t kForeignId = 0xf0f0f0f0f0;  // of the pattern in it

enum class Answer : std::uint32_t { kAtOnce, kHold, kHoldAndFail, kGarbage, kSystemErr };

struct CallScript {
  std::uint64_t id = 0;  // of its patterns
  Procedure procedure{kProgram, kVersion, kWork};
  Answer answer = Answer::kAtOnce;
  std::vector<std::uint32_t> arguments;  // bulk, bytes
  std::uint32_t plain_argument = 0;      // opaque in the stream, bytes
  std::vector<std::uint32_t> results;    // bulk, bytes
  std::uint32_t plain_result = 0;        // opaque in the stream, bytes
  bool foreign = false;                  // results are in the service's own memory
  std::vector<std::uint32_t> places;     // for the first results, bytes
  std::uint32_t results_size_max = 0;    // given to expect_results()
  std::uint32_t arguments_size_max = 0;  // given to prepare()
  std::optional<std::chrono::nanoseconds> timeout;

  bool calls_work() const noexcept {
    return procedure.program == kProgram && procedure.version == kVersion &&
           procedure.number != kNull && procedure.number < kProcedures;
  }
  std::uint32_t stream_size() const noexcept;     // of the arguments without bulk data
  std::uint64_t arguments_size() const noexcept;  // of all arguments
  std::uint32_t results_size() const noexcept;    // bound that expect_results() asks for
  // The arguments can be encoded, and start() must take them.
  bool can_start() const noexcept;
  // All results have the room that the contract of Call asks for.
  bool results_fit() const noexcept;
};

// For people.
std::string describe(const CallScript& script);

// Bounds what a script may draw from.
struct ScriptLimits {
  std::uint32_t inline_size;  // sizes around it are the interesting ones
  std::uint32_t bulk_size_max;
  std::uint32_t hold_one_in;
};
CallScript draw_script(SeededRandom& random, std::uint64_t id, const ScriptLimits& limits);
// A backward call: it and its reply fit into any message.
CallScript draw_backward_script(SeededRandom& random, std::uint64_t id, std::uint32_t hold_one_in);
// It and its reply may fit into no message.
void enlarge(CallScript& script, SeededRandom& random);
// A call that every server takes, whatever its options.
CallScript plain_script(std::uint64_t id);

// The id of the pattern of one part of a call.
std::uint64_t argument_pattern(std::uint64_t id, std::size_t index);
std::uint64_t result_pattern(std::uint64_t id, std::size_t index);
std::uint64_t plain_pattern(std::uint64_t id, bool result);

// Under what a call ended.
struct Circumstances {
  const Plan& plan;
  const ClientOptions& client;
  const ServerOptions& server;
  bool client_closed;  // close() was called, or it is being destroyed
  // A call of this client gave up: a late reply that writes into its memory ends the connection.
  bool client_gave_up;
  bool deadline_passed;
  std::uint32_t connections_made;  // by this client since the call began
  bool by_stream = false;          // what is too long is said otherwise
};
// Returns whether a stream may end for want of memory, or of a place at the server, which closes it
// then.
bool stream_may_end(const ClientOptions& client, const ServerOptions& server);
// Why a call must not end with this error; nullopt: it may.
std::optional<std::string> judge_failure(const CallScript& script, const Circumstances& at,
                                         Errc code);
// Why a call must not end well.
std::optional<std::string> judge_success(const CallScript& script);

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_SCRIPT_H_
