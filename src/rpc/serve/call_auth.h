// Authenticates one Call in service, step by step (rpcrdma/auth.h).
#ifndef RPCRDMA_RPC_SERVE_CALL_AUTH_H_
#define RPCRDMA_RPC_SERVE_CALL_AUTH_H_

#include <cstdint>
#include <vector>

#include "oncrpc/message.h"
#include "oncrpc/runs.h"
#include "rpc/received.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/message.h"

namespace rpcrdma::rpc {

struct CallAuth {
  enum class Stage : std::uint8_t {
    kNone,       // no step is under way elsewhere
    kAccepting,  // ServerAuth::accept()
    kUnwrapping,
    kSealing,  // of the reply
  };

  // Each begins a step. If it returns kPending, the stage says which step the call waits for.
  StepEnd accept(ServerAuth& auth, const oncrpc::CallHeader& header, Bytes message,
                 std::string_view peer, AuthStep& step) {
    with = &auth;
    call = {};
    call.peer = peer;
    name(header, message);
    return begin(auth.accept(call, step), Stage::kAccepting);
  }
  StepEnd unwrap(Bytes arguments, AuthStep& step) {
    is_unwrapped = true;
    call.arguments = changeable(arguments);
    return begin(with->unwrap(call, step), Stage::kUnwrapping);
  }
  // `results`: null if the call fails.
  StepEnd seal(const MessageWriter* results, Bytes stream, AuthStep& step) {
    runs.clear();
    if (results != nullptr && call.is_wrapped) {
      oncrpc::for_each_run(*results, stream, [this](Bytes run) { runs.push_back(run); });
    }
    call.results = runs;
    call.wrapped.reset();
    call.enclosure.reset();
    return begin(with->seal(call, step), Stage::kSealing);
  }
  // Sets the fields of the header, also when it was copied elsewhere.
  void name(const oncrpc::CallHeader& header, Bytes message) noexcept {
    call.xid = static_cast<std::uint32_t>(header.xid);
    call.procedure = header.procedure;
    call.credential = header.credential;
    call.verifier = header.verifier;
    // XID to procedure, flavor and size: eight words in front of the credential's body.
    call.header =
        message.first(8 * xdr::kWordSize + xdr::padded_memory(header.credential.body.size()));
  }
  // Ends the authentication with its call.
  void end() noexcept {
    if (with == nullptr) [[likely]]
      return;
    if (call.state != nullptr) with->forget(call);
    with = nullptr;
    call.state = nullptr;
    is_unwrapped = false;
  }

  ServerAuth* with = nullptr;  // null: nothing of the call is sealed
  Stage stage = Stage::kNone;
  bool is_unwrapped = false;
  CallAcceptance call;
  std::vector<Bytes> runs;  // of results that are wrapped

 private:
  StepEnd begin(StepEnd end, Stage waits_for) noexcept {
    if (end == StepEnd::kPending) stage = waits_for;
    return end;
  }
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_CALL_AUTH_H_
