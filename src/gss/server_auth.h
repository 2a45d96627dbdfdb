// RPCSEC_GSS of a server (RFC 2203): makes and ends contexts, checks headers, unwraps arguments and
// wraps results.
//
// Tokens, and bodies of many bytes, are handled on the executor, where hosts take turns. One thread
// at a time uses a context; a connection's thread does not wait for it, but leaves the step to the
// executor.
#ifndef RPCRDMA_GSS_SERVER_AUTH_H_
#define RPCRDMA_GSS_SERVER_AUTH_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "gss/context_table.h"
#include "gss/host_turns.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

class ServerGss final : public ServerAuth {
 public:
  using Report = std::function<void(std::string_view why)>;

  // How much of it goes on at a time.
  struct Pace {
    std::size_t bodies = 4;  // that the executor protects, of different contexts
    // Tokens of a host that wait for their turn. A machine makes contexts for all of its users at
    // once when a server was started again.
    std::size_t tokens_per_host = 1024;
  };

  // `mechanism` and `executor` must outlive it.
  ServerGss(Mechanism& mechanism, Executor& executor, const ContextTable::Limits& limits,
            std::function<std::uint64_t()> draw_handle, std::function<Instant()> now, Report report,
            const Pace& pace);
  ServerGss(Mechanism& mechanism, Executor& executor, const ContextTable::Limits& limits,
            std::function<std::uint64_t()> draw_handle, std::function<Instant()> now,
            Report report = {});
  ~ServerGss() override;

  StepEnd accept(CallAcceptance& call, AuthStep& step) override;
  StepEnd unwrap(CallAcceptance& call, AuthStep& step) override;
  StepEnd seal(CallAcceptance& call, AuthStep& step) override;
  void forget(CallAcceptance& call) noexcept override;

  const ContextTable& contexts() const noexcept { return contexts_; }
  // Returns what calls that have ended keep for those that come.
  std::size_t bytes_kept() const;

 private:
  struct State;  // of one call
  using Step = void (ServerGss::*)(CallAcceptance& call, State& state);

  static State& state_of(CallAcceptance& call) noexcept;
  std::unique_ptr<State> take_state();
  // Runs it at once if the context is free and there are few bytes, else on the executor.
  StepEnd with_context(CallAcceptance& call, AuthStep& step, std::size_t bytes, Step run);
  // Each sets the outputs of the call's step.
  AuthStatus judge_control(CallAcceptance& call, State& state, Bytes handle);
  void judge_header(CallAcceptance& call, State& state);
  void take_token(CallAcceptance& call, State& state);
  Status prove(State& state);
  void unwrap_arguments(CallAcceptance& call, State& state);
  void seal_control(CallAcceptance& call, State& state);
  void seal_reply(CallAcceptance& call, State& state);

  Mechanism& mechanism_;
  const Report report_;  // perhaps empty
  const std::uint32_t window_;
  ContextTable contexts_;
  // Tokens may wait for a directory of users; half of the library's threads are for what does not.
  HostTurns tokens_, bodies_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<State>> free_;  // guarded by mutex_; reused by later calls
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_SERVER_AUTH_H_
