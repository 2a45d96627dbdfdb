// RPCSEC_GSS of a server (RFC 2203): contexts are made and ended, headers checked, arguments
// unwrapped, results wrapped.
//
// What a mechanism waits for, and what takes long, goes on with the executor: tokens always, and
// bodies of many bytes. A context is used by one thread at a time; a connection's thread does not
// wait for it, but leaves the step to the executor.
#ifndef RPCRDMA_GSS_SERVER_AUTH_H_
#define RPCRDMA_GSS_SERVER_AUTH_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "gss/context_table.h"
#include "gss/executor.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

class ServerGss final : public ServerAuth {
 public:
  // The first two outlive it.
  ServerGss(Mechanism& mechanism, Executor& executor, const ContextTable::Limits& limits,
            std::uint64_t first_handle, std::function<Instant()> now);
  ~ServerGss() override;

  StepEnd accept(CallAcceptance& call, AuthStep& step) override;
  StepEnd unwrap(CallAcceptance& call, AuthStep& step) override;
  StepEnd seal(CallAcceptance& call, AuthStep& step) override;
  void forget(CallAcceptance& call) noexcept override;

  const ContextTable& contexts() const noexcept { return contexts_; }

 private:
  struct State;  // of one call
  using Step = void (ServerGss::*)(CallAcceptance& call, State& state);

  static State& state_of(CallAcceptance& call) noexcept;
  std::unique_ptr<State> take_state();
  // Runs it now if the context is free and there are few bytes, else elsewhere.
  StepEnd with_context(CallAcceptance& call, AuthStep& step, std::size_t bytes, Step run);
  // Each sets what the call's step has to.
  AuthStatus judge_control(CallAcceptance& call, State& state, Bytes handle);
  void judge_header(CallAcceptance& call, State& state);
  void take_token(CallAcceptance& call, State& state);
  void unwrap_arguments(CallAcceptance& call, State& state);
  void seal_control(CallAcceptance& call, State& state);
  void seal_reply(CallAcceptance& call, State& state);

  Mechanism& mechanism_;
  Executor& executor_;
  const std::uint32_t window_;
  ContextTable contexts_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<State>> free_;  // guarded by mutex_; for the next calls
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_SERVER_AUTH_H_
