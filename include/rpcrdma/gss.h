// RPCSEC_GSS version 1 (RFC 2203): calls whose caller is proved, and, at choice, whose arguments
// and results are checked or enciphered. The work is done by a security mechanism behind the
// interface below: Kerberos 5 by MIT's library (make_kerberos()), or the application's own.
//
// On RDMA, Service::kNone protects the RPC header alone: nothing then checks data that moves by
// RDMA Read or Write. With kIntegrity and kPrivacy nothing is placed directly: arguments and
// results move as a whole (RFC 8166 §6.1), in the message or in a Read chunk of position zero and a
// Reply chunk.
#ifndef RPCRDMA_GSS_H_
#define RPCRDMA_GSS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/callback.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/types.h"

namespace rpcrdma::gss {

// rpc_gss_service_t, RFC 2203 §5: what is protected of a call.
enum class Service : std::uint32_t {
  kNone = 1,       // the RPC header: who calls, and what ("krb5")
  kIntegrity = 2,  // arguments and results against changes as well ("krb5i")
  kPrivacy = 3,    // and against readers ("krb5p")
};

// The result of a mechanism's function (RFC 2743 §1.2.1.1, RFC 2203 appendix A).
struct Status {
  static constexpr std::uint32_t kComplete = 0;
  static constexpr std::uint32_t kContinueNeeded = 1;
  static constexpr std::uint32_t kNoContext = 8U << 16U;
  static constexpr std::uint32_t kDefectiveToken = 9U << 16U;
  static constexpr std::uint32_t kFailure = 13U << 16U;

  std::uint32_t major = kComplete;
  std::uint32_t minor = 0;  // the mechanism's
  std::string text{};       // for a person: what happened, and what to do; empty without an error

  bool is_error() const noexcept { return major != kComplete && major != kContinueNeeded; }
};

// One side's end of a security context. It is used by one thread at a time; the library sees to
// that. Functions that may wait for other machines or for files say so; the library calls them on
// threads of its own.
class Context {
 public:
  virtual ~Context() = default;

  // Takes the peer's token (of an initiator's first step: empty), and sets the one for the peer,
  // empty if there is none. Until it says kComplete or fails. May wait.
  virtual Status step(Bytes token, std::vector<std::byte>& answer) = 0;

  // --- Of a context that is complete.

  // Returns how long the context is valid. Empty: for ever.
  virtual std::optional<std::chrono::seconds> lifetime() const = 0;
  // A checksum over pieces that lie one behind the other; its size is the same for all.
  virtual Status checksum(std::span<const Bytes> pieces, std::vector<std::byte>& checksum) = 0;
  virtual bool is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) = 0;
  // Enciphers in place what lies between room for `wrap_header_size()` and `wrap_trailer_size()`
  // bytes, which it fills.
  virtual std::size_t wrap_header_size() const = 0;
  virtual std::size_t wrap_trailer_size() const = 0;
  virtual Status wrap(MutableBytes whole) = 0;
  // Deciphers in place. nullopt: it was not wrapped by the other side, or not with privacy.
  virtual std::optional<MutableBytes> unwrap(MutableBytes token) = 0;

  // An acceptor's: who called, "alice@REALM".
  virtual std::string_view principal() const = 0;
  // The user of this machine that the principal is; empty: none. May wait.
  virtual std::string local_user() = 0;
};

// Makes contexts. Its functions are called on any thread, several at a time, and may wait.
class Mechanism {
 public:
  virtual ~Mechanism() = default;
  // Begins a context for calls to a service, "nfs@host.example".
  virtual Expected<std::unique_ptr<Context>, Status> initiate(std::string_view service) = 0;
  virtual Expected<std::unique_ptr<Context>, Status> accept() = 0;
};

// Names the places where Kerberos 5 finds its secrets; an empty one is the system's default.
struct Kerberos {
  // A server's: the file with its keys (else KRB5_KTNAME, or /etc/krb5.keytab), and which of them
  // to take, "nfs@host.example" (else any).
  std::string keytab{};
  std::string service{};
  // A client's: its tickets (else KRB5CCNAME, or what kinit makes), and a file with its key by
  // which it gets tickets itself (else KRB5_CLIENT_KTNAME).
  std::string tickets{};
  std::string client_keytab{};
};

// Makes the mechanism by MIT's library, which is in a shared object of its own
// (librpcrdma_krb5.so); it is searched for like that of the verbs provider. kUnsupported: it is not
// there; the text says what to install. A missing ticket or key shows when the first context is
// made.
RPCRDMA_EXPORT Expected<std::unique_ptr<Mechanism>, Error> make_kerberos(
    const Kerberos& settings = {});

// Runs steps that wait or take long. Applications need none: the library has threads of its own,
// together for all clients, and for each server. Tests in virtual time bring theirs.
class RPCRDMA_EXPORT Executor {
 public:
  using Work = Callback<void()>;
  virtual ~Executor() = default;
  // Takes work from any thread, and runs it exactly once, on any thread, perhaps before returning.
  // There is at most one piece for each call, so that there is no bound.
  virtual void submit(Work work) = 0;
};

// Configures the security of a client, see ClientOptions::auth.
struct ClientSecurity {
  Service service = Service::kNone;
  // The service to call, "nfs@host.example". Without '@', the host is that of the URL.
  std::string target = "nfs";
  Kerberos kerberos{};
  // Used in place of Kerberos and of the library's threads; must outlive the client.
  Mechanism* mechanism = nullptr;
  Executor* executor = nullptr;
};

// Configures the security of a server, see Server::secure().
struct ServerSecurity {
  Kerberos kerberos{};
  std::size_t contexts_max = 16'384;  // beyond, the host with most loses its oldest
  // Threads that make contexts, and run steps that protect long messages, or short ones whose
  // context is busy. An executor in their place has at most as many such steps at a time, four
  // unless the application sets this, and two tokens; hosts take turns at both.
  std::size_t threads = 4;
  // Called, on any thread and several at a time, with the reason why a client gets no context: for
  // the server's log. Any client can cause it, as often as it likes.
  std::function<void(std::string_view why)> report{};
  // Used in place of Kerberos and of these threads; must outlive the server.
  Mechanism* mechanism = nullptr;
  Executor* executor = nullptr;
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_H_
