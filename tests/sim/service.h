// A service that does what the arguments of each call say, now or later.
#ifndef RPCRDMA_TESTS_SIM_SERVICE_H_
#define RPCRDMA_TESTS_SIM_SERVICE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/random.h"
#include "rpcrdma/service.h"
#include "sim/script.h"
#include "sim/verdict.h"

namespace rpcrdma::simulation {

// Memory of the application's from which results are sent without a copy.
class ForeignMemory {
 public:
  ForeignMemory();
  // A run that depends on the call only.
  Bytes run(std::uint64_t call, std::uint32_t size) const;
  bool is_whole() const;

 private:
  std::vector<std::byte> bytes_;
};

class ScriptedService final : public Service {
 public:
  // The random source draws only whether calls that come in make it answer held ones.
  ScriptedService(const ForeignMemory& foreign, Verdict& verdict, SeededRandom& random)
      : foreign_(foreign), verdict_(verdict), random_(random) {}

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  void call(CallContext& context) override;

  std::size_t held() const noexcept { return held_.size(); }
  bool holds(std::uint64_t call) const noexcept;
  // Answers one of the calls that are held.
  void answer(std::size_t index);
  // The server is gone with all its contexts.
  void forget() noexcept { held_.clear(); }

  bool is_idempotent = true;    // else a call that comes again must not be executed again
  bool spoils_results = false;  // deliberately, for tests of the runner
  // Told of each call before it is answered, with its id.
  std::function<void(CallContext& context, std::uint64_t call)> on_call;

 private:
  struct Task {  // a call, decoded; the views live until its answer
    CallContext* context = nullptr;
    std::uint64_t id = 0;
    Answer answer{};
    bool foreign = false;
    Bytes plain;
    std::vector<Bytes> arguments;
    std::uint32_t plain_result = 0;
    std::vector<std::uint32_t> results;
    std::vector<MutableBytes> memory;  // of the results, unless foreign
  };
  bool decode(Task& task);
  void check_arguments(const Task& task, const char* when);
  bool take_memory(Task& task);
  void finish(Task& task);

  const ForeignMemory& foreign_;
  Verdict& verdict_;
  SeededRandom& random_;
  std::vector<Task> held_;
  std::set<std::uint64_t> executed_;  // the calls, by their ids
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_SERVICE_H_
