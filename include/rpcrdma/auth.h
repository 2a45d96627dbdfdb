// How calls prove who makes them, and how a server checks it: what a security flavor of RPC is made
// of (RFC 5531 §8). AUTH_NONE and AUTH_SYS are built in; ClientOptions::auth and
// Server::accept_flavor() take others.
//
// Each step may end at once, or later and elsewhere, for what waits for a third party or takes long
// (StepEnd). Until then the call stays, and all that the step was shown stays as it is: a time
// limit that has passed and a connection that is lost end the call after its step. So a step ends
// by itself in any case, and clients and servers wait for theirs before they go.
#ifndef RPCRDMA_AUTH_H_
#define RPCRDMA_AUTH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

enum class StepEnd : std::uint8_t {
  kDone,   // it has ended; AuthStep::finish() is not called
  kLater,  // AuthStep::finish() ends it
};

// Ends a step that goes on elsewhere: from any thread, also before the step has returned kLater,
// and exactly once. What the step sets is set before.
class RPCRDMA_EXPORT AuthStep {
 public:
  virtual void finish() = 0;

 protected:
  ~AuthStep() = default;
};

// A Call on its way out, and its Reply. Bodies of credentials and verifiers have 400 bytes at most
// (kAuthBodySizeMax). Whatever an authenticator sets in it is borrowed: it stays
// until the next seal() of the call, or forget().
struct CallSeal {
  // The call.
  std::uint32_t xid = 0;
  Procedure procedure{};
  // For seal(), where ClientAuth::wrap_growth() has a value, else empty: the arguments in XDR, in
  // pieces, until the step has ended.
  std::span<const Bytes> arguments{};

  // Set by seal(): the fields of the RPC header.
  Credential credential{};
  Credential verifier{};
  // Set by seal(), where wrap_growth() has a value: what goes in place of the arguments; XDR, and
  // so a multiple of four bytes. nullopt: they go as they are.
  std::optional<Bytes> wrapped;

  // For open(): the verifier of the reply, as the server wrote it, and what follows the header; not
  // what was placed elsewhere, which is only done where nothing is wrapped. Where wrap_growth() has
  // a value, open() may set other bytes in place of the results.
  Credential reply_verifier{};
  Bytes results{};

  // Set by either step: the call fails with it.
  std::optional<Error> failure;
  // The authenticator's own, null before its first step.
  void* state = nullptr;
};

// What the calls of one client are sealed with. It belongs to the client's thread but for what its
// steps do elsewhere.
class RPCRDMA_EXPORT ClientAuth {
 public:
  virtual ~ClientAuth() = default;

  // For each transmission: a call that is made again over another connection is sealed anew.
  virtual StepEnd seal(CallSeal& call, AuthStep& step) = 0;
  // The reply is there, and reports success. Nothing of it was shown to the application yet.
  virtual StepEnd open(CallSeal& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The call has ended: no view of it is used any more. Only called where CallSeal::state is set.
  virtual void forget(CallSeal& /*call*/) noexcept {}

  // By how many bytes results may grow when they are wrapped; nullopt: nothing is wrapped. Wrapped
  // items are not eligible for direct placement (RFC 8166 §6.1): long calls and replies move as a
  // whole then.
  virtual std::optional<std::uint32_t> wrap_growth() const noexcept { return std::nullopt; }
};

// A Call that came in, and the reply to it. What an authenticator sets in it is borrowed: it stays
// until forget().
struct CallAcceptance {
  // For all steps: the header of the call. Its views live until the reply is out.
  std::uint32_t xid = 0;
  Procedure procedure{};
  Credential credential{};
  Credential verifier{};
  Bytes header{};           // from the XID to the end of the credential: what a checksum may cover
  std::string_view peer{};  // "ADDR:PORT"

  // Set by accept(): kOk, or why the call is denied (AUTH_ERROR).
  AuthStatus status = AuthStatus::kOk;
  // Set by accept(): what names the caller, for the reply cache, where credentials are good for one
  // transmission: a call that is made again has another one, and the same identity. nullopt: the
  // body of the credential.
  std::optional<Bytes> identity;
  // Set by accept(): whether arguments and results are wrapped, so that unwrap() and wrap() are
  // asked.
  bool is_wrapped = false;

  // For unwrap(): all that follows the header. It may set other bytes in its place; nullopt, as it
  // must for what cannot be unwrapped: the call fails with GARBAGE_ARGS.
  std::optional<Bytes> arguments;
  // For seal(), where the call is wrapped and succeeds: the results in XDR, in pieces, until the
  // step has ended. It sets what goes in their place; nullopt: the call fails with SYSTEM_ERR.
  std::span<const Bytes> results{};
  std::optional<Bytes> wrapped;
  // Set by seal(): the verifier of the reply.
  Credential reply_verifier{};

  // The authenticator's own, null before its first step.
  void* state = nullptr;
};

// What a server does with the calls of one flavor. Called on the server's thread.
class RPCRDMA_EXPORT ServerAuth {
 public:
  virtual ~ServerAuth() = default;

  // The header is there. It is asked before any bulk data moves, once for each call, and before
  // Service::check_credential().
  virtual StepEnd accept(CallAcceptance& call, AuthStep& step) = 0;
  // All of a wrapped call is there.
  virtual StepEnd unwrap(CallAcceptance& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The call was accepted and has been answered, with results or with an error of RFC 5531 §9.
  virtual StepEnd seal(CallAcceptance& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The reply is out, or there is none: no view of the call is used any more. Only called where
  // CallAcceptance::state is set, and only that is valid still.
  virtual void forget(CallAcceptance& /*call*/) noexcept {}
};

}  // namespace rpcrdma

#endif  // RPCRDMA_AUTH_H_
