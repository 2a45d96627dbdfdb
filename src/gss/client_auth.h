// RPCSEC_GSS of a client (RFC 2203): makes a security context when the first call needs one, seals
// calls with it, checks their replies, and makes the next context before this one expires or when
// the server has lost it. The call that needs a context first carries out the exchanges that make
// it (CallSeal::is_control); the other calls wait.
//
// Steps in which a mechanism waits, and long ones, run on the executor. All others run on the
// client's thread.
#ifndef RPCRDMA_GSS_CLIENT_AUTH_H_
#define RPCRDMA_GSS_CLIENT_AUTH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "gss/executor.h"
#include "gss/sequence_numbers.h"
#include "gss/step_turns.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

class ClientGss final : public ClientAuth {
 public:
  struct Settings {
    std::string target;  // "nfs@host.example"
    Service service = Service::kNone;
    std::uint32_t first_sequence = 1;
  };
  // `mechanism` and `executor` must outlive it. `now` is called on the client's thread.
  ClientGss(Mechanism& mechanism, Executor& executor, Settings settings,
            std::function<Instant()> now);
  ~ClientGss() override;  // precondition: no call is left

  StepEnd seal(CallSeal& call, AuthStep& step) override;
  void cancel_soon(CallSeal& call) noexcept override;
  StepEnd open(CallSeal& call, AuthStep& step) override;
  StepEnd refused(CallSeal& call, AuthStep& step) override;
  void forget(CallSeal& call) noexcept override;
  std::optional<std::uint32_t> wrap_growth() const noexcept override;
  std::optional<Procedure> logout_procedure() const noexcept override;

 private:
  struct State;      // of one call
  struct Used;       // a context that calls are sealed with
  struct Making;     // one that is being made
  struct InAdvance;  // the first token of the next one

  static State& state_of(CallSeal& call) noexcept;
  StepEnd seal_or_wait(State& state);
  StepEnd seal_call(State& state);
  void protect(State& state);
  void check_reply(State& state);
  void check_refusal(State& state);
  void end_number(State& state) noexcept;
  void serve_waiting();

  // --- Making one.
  StepEnd begin_making(State& state);
  StepEnd go_on_making(State& state);
  StepEnd send_token(State& state);
  void take_answer(State& state);
  void install();
  void end_making();
  // --- The one in use.
  void drop_used_if_over();
  void drop_used();
  void release(Used* used) noexcept;
  bool is_renewal_due();
  static bool is_done(InAdvance& advance);
  void drop_in_advance();
  void prepare_renewal();

  Mechanism& mechanism_;
  Executor& executor_;
  DirectQueue queue_{executor_};
  const Settings settings_;
  const std::function<Instant()> now_;
  std::list<Used> contexts_;  // the one in use, and those that calls still need
  Used* used_ = nullptr;
  std::unique_ptr<Making> making_;
  std::unique_ptr<InAdvance> in_advance_;
  std::deque<State*> waiting_;  // their seal() has not ended; the oldest first
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_CLIENT_AUTH_H_
