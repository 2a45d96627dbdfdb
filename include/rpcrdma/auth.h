// Authentication of calls: what an RPC security flavor consists of (RFC 5531 §8). AUTH_NONE and
// AUTH_SYS are built in. ClientOptions::auth and Server::accept_flavor() add others.
//
// Each step may end at once, or later and on another thread if it waits for a third party or takes
// long (StepEnd). Until the step ends, the call and everything shown to the step stay valid. A
// time-out or a lost connection ends the call only after its step. Therefore every step must end by
// itself, one that waits for other calls also by ClientAuth::cancel_soon(), and clients and servers
// wait for their steps before they are destroyed.
#ifndef RPCRDMA_AUTH_H_
#define RPCRDMA_AUTH_H_

#include <cstddef>
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
  kDone,     // the step has ended; AuthStep::finish() is not called
  kPending,  // AuthStep::finish() ends the step
};

// Ends a step that returned kPending. Call exactly once, from any thread, possibly before the step
// has returned kPending. Set the step's outputs before.
class RPCRDMA_EXPORT AuthStep {
 public:
  virtual void finish() = 0;

 protected:
  ~AuthStep() = default;
};

// XDR that is sent around arguments or results, such as their length and a checksum. The bytes
// between the two are sent from where they are, without a copy; the application may not change them
// until the call has ended or the reply is sent.
struct Enclosure {
  static constexpr std::size_t kBeforeSizeMax = 8;

  Bytes before{};  // at most kBeforeSizeMax bytes, a multiple of four
  Bytes after{};   // a multiple of four bytes
};

// An outgoing Call and its Reply. Everything that an authenticator sets here is borrowed until the
// next seal() of the call, or forget(). Bodies of credentials and verifiers
// have 400 bytes at most (kAuthBodySizeMax).
struct CallSeal {
  // The call.
  std::uint32_t xid = 0;
  Procedure procedure{};
  std::string_view peer{};  // of the connection, for the text of errors
  // For seal(): the arguments in XDR, in pieces, valid until the step has ended. Empty unless
  // ClientAuth::wrap_growth() has a value.
  std::span<const Bytes> arguments{};

  // Set by seal(): the fields of the RPC header.
  Credential credential{};
  Credential verifier{};
  // Set by seal(), if wrap_growth() has a value: XDR that replaces the arguments, its size a
  // multiple of four bytes; or XDR that encloses them. At most one of the two has a value. With an
  // enclosure, the bodies of credential and verifier together have at most 2 * kAuthBodySizeMax -
  // kBeforeSizeMax bytes. Neither: the arguments are sent unchanged.
  std::optional<Bytes> wrapped;
  std::optional<Enclosure> enclosure;
  // Set by seal(): what goes out is not the call yet but a message of the authenticator's, such as
  // one that makes a security context: procedure 0 of the call's program, `wrapped` for arguments,
  // an XID of its own, results of at most kControlResultsSizeMax bytes. Its reply is for open() and
  // refused() alone, which set `again` or `failure`. Bulk data and places stay for the call.
  bool is_control = false;
  // For seal(): the call of ClientAuth::logout_procedure().
  bool is_last = false;
  // For seal(): the bytes of all arguments, bulk items included, 2³² - 1 at most. Set also
  // where `arguments` is empty.
  std::uint32_t arguments_size = 0;

  // For open(): the verifier of the reply as the server wrote it, and what follows the header. This
  // excludes placed data; nothing is placed when the call is wrapped. If wrap_growth() has a value,
  // open() may change these bytes and replace the view. The server can no longer write to them.
  Credential reply_verifier{};
  MutableBytes results{};
  // For refused(): why the server denies the call, if it does by AUTH_ERROR. There is no verifier
  // then, so that anybody may have said so (RFC 5531 §9).
  std::optional<AuthStatus> denied;

  // Set by any step: fails the call with this error. For refused() it is set before.
  std::optional<Error> failure;
  // Set by open() and refused(), in place of `failure`: the call is sealed and sent once more, with
  // the same XID, within its time. The authenticator bounds how often: a denial can be forged.
  bool again = false;
  // For the authenticator's use; null before its first step.
  void* state = nullptr;
};

// Seals the calls of one client. Used on the client's thread; only its steps may continue
// elsewhere.
class RPCRDMA_EXPORT ClientAuth {
 public:
  static constexpr std::uint32_t kControlResultsSizeMax = 512;  // bytes: no Reply chunk is needed

  virtual ~ClientAuth() = default;

  // Called for each transmission: a call repeated over another connection is sealed anew.
  virtual StepEnd seal(CallSeal& call, AuthStep& step) = 0;
  // The call's time is over, or its connection is lost, while its seal() goes on elsewhere. A step
  // that waits for other calls ends now, whatever it has set; one that works ends when its work
  // does, and does not begin to wait. Called on the client's thread at least once, so it must be
  // remembered.
  virtual void cancel_soon(CallSeal& /*call*/) noexcept {}
  // A successful reply has arrived. None of it was shown to the application yet.
  virtual StepEnd open(CallSeal& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The server denies the call, or has accepted it and reports an error of RFC 5531 §9, which
  // `failure` says. Accepted ones have a reply_verifier.
  virtual StepEnd refused(CallSeal& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The call has ended and no view of it remains in use. Called only if CallSeal::state is set.
  virtual void forget(CallSeal& /*call*/) noexcept {}

  // The call that tells the server to forget what it keeps for this client, such as a security
  // context, see ClientIdentity::log_out(); nullopt: it keeps nothing. It has neither arguments nor
  // results.
  virtual std::optional<Procedure> logout_procedure() const noexcept { return std::nullopt; }

  // The number of bytes by which results may grow when wrapped; nullopt: nothing is wrapped.
  // Wrapped items are not eligible for direct placement (RFC 8166 §6.1), so long calls and replies
  // move as a whole.
  virtual std::optional<std::uint32_t> wrap_growth() const noexcept { return std::nullopt; }
};

// An incoming Call and its reply. Everything that an authenticator sets here is borrowed until
// forget().
struct CallAcceptance {
  // For all steps: the header of the call. Its views live until the reply is sent.
  std::uint32_t xid = 0;
  Procedure procedure{};
  Credential credential{};
  Credential verifier{};
  Bytes header{};           // from the XID to the end of the credential: input for a checksum
  std::string_view peer{};  // "ADDR:PORT"

  // Set by accept(): kOk, or the reason for denying the call (AUTH_ERROR).
  AuthStatus status = AuthStatus::kOk;
  // Set by accept(): the caller's identity for the reply cache, if a credential is good for one
  // transmission only. A repeated call then has another credential and the same identity. nullopt:
  // the body of the credential.
  std::optional<Bytes> identity;
  // Set by accept(): who calls, for services and for Server::require(). By default the flavor of
  // the credential, and nobody.
  std::optional<Caller> caller;
  // Set by accept(): whether arguments and results are wrapped, which enables unwrap() and the
  // wrapping of results in seal().
  bool is_wrapped = false;

  // For unwrap(): everything after the header. The step may change these bytes and replace the
  // view. It must set nullopt if it cannot unwrap the arguments; the call then fails with
  // GARBAGE_ARGS.
  std::optional<MutableBytes> arguments;
  // For seal(), if the call is wrapped and succeeds: the results in XDR, in pieces, valid until the
  // step has ended. The step sets `wrapped` to replace them, or `enclosure` to send XDR around
  // them, but not both. Neither: the call fails with SYSTEM_ERR.
  std::span<const Bytes> results{};
  std::optional<Bytes> wrapped;
  std::optional<Enclosure> enclosure;
  // Set by seal(): the verifier of the reply.
  Credential reply_verifier{};

  // Set by any step for which no reply to this call would be right, as for a replayed call. If not
  // empty, the connection is closed, and this static text is reported as the reason: over RDMA, a
  // call without an answer would keep its credit for ever.
  std::string_view ends_connection{};

  // For the authenticator's use; null before its first step.
  void* state = nullptr;
};

// Handles the calls of one flavor on a server. Called on the server's thread.
class RPCRDMA_EXPORT ServerAuth {
 public:
  virtual ~ServerAuth();

  // The header has arrived. Called once per call, before any bulk data moves and before
  // Service::check_credential().
  virtual StepEnd accept(CallAcceptance& call, AuthStep& step) = 0;
  // A wrapped call has arrived completely.
  virtual StepEnd unwrap(CallAcceptance& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The call was accepted and has been answered, with results or with an error of RFC 5531 §9.
  virtual StepEnd seal(CallAcceptance& /*call*/, AuthStep& /*step*/) { return StepEnd::kDone; }
  // The reply has been sent, or there is none; no view of the call remains in use. Called only if
  // CallAcceptance::state is set, which is the only member that is still valid.
  virtual void forget(CallAcceptance& /*call*/) noexcept {}
};

}  // namespace rpcrdma

#endif  // RPCRDMA_AUTH_H_
