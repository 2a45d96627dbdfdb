// A client of RPCSEC_GSS that says its calls of the TestService byte by byte, each as right or as
// wrong as the test wants it, and looks at what it is answered.
#ifndef RPCRDMA_TESTS_SUPPORT_GSS_CALLER_H_
#define RPCRDMA_TESTS_SUPPORT_GSS_CALLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "rpcrdma/gss.h"
#include "rpcrdma/oncrpc.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {

inline constexpr std::uint32_t kGss = 6;  // the flavor

// XDR of variable length.
Message opaque(Bytes data);

// The fields of a Call; by default as it should be.
struct Said {
  std::uint32_t version = 1;
  std::uint32_t control = 0;
  std::uint32_t sequence = 1;
  gss::Service service = gss::Service::kNone;
  Message handle{};
  std::uint32_t procedure = TestService::kEcho;
  std::optional<std::uint32_t> body_sequence{};  // another one than that of the header
  std::optional<Message> verifier{};             // opaque_auth, instead of the checksum
  bool is_bare = false;                          // arguments are not wrapped, whatever the service
};

// That of an INIT; with a handle, of a CONTINUE_INIT.
Said said_init(Message handle = {});
// A verifier of the flavor with this checksum.
Message verifier_of(Bytes checksum);

class GssCaller {
 public:
  // `window`: that the server has to promise.
  explicit GssCaller(std::uint32_t window) : window_(window) {}
  GssCaller(GssCaller&&) = default;
  virtual ~GssCaller() = default;

  // Sends a whole RPC Call. Its reply behind the XID; nullopt: the connection ended instead.
  virtual std::optional<Message> exchange(const Message& call) = 0;

  // As far as the credential, which is what a checksum covers.
  Message header(const Said& said);
  // The whole Call, protected by `ours`.
  Message sealed(const Said& said, const Message& arguments);
  std::optional<Message> call(const Said& said, const Message& arguments) {
    return exchange(sealed(said, arguments));
  }
  // The results of an echo that was answered as it should be, whose verifier is that of the number.
  void expect_echo(const Said& said, const Message& data);
  // The reply is that of such an echo.
  void expect_echoed(const Message& reply, const Said& said, const Message& data);
  // Returns what is behind accept_stat, of a reply whose verifier is the checksum of the number.
  Bytes accepted(const Message& reply, std::uint32_t number, std::uint32_t status);
  static void expect_denied(const std::optional<Message>& reply, AuthStatus why);

  // One exchange of tokens; what the server says, the handle and the token copied.
  struct Made {
    std::uint32_t major = 0, window = 0;
    Message handle, token, verifier;
  };
  std::optional<Made> init(const Said& said, const Message& token,
                           const Message& verifier = words({0, 0}));
  // Returns what the server says in a reply to that; nullopt, and a failure: it is none.
  static std::optional<Made> made_by(const Message& reply);
  // Makes a context; `handle` and `ours` are its, until the next one.
  void make_context(gss::Mechanism& mechanism);

  gss::Context* ours = nullptr;  // what calls are protected by
  Message handle;

 private:
  const std::uint32_t window_;
  std::unique_ptr<gss::Context> made_;
  std::uint32_t xid_ = 100;
};

// On a socket of its own, over RPC-over-RDMA on siwarp, or over records. Calls and replies fit into
// a message; the server is on another thread.
class RawCaller final : public GssCaller {
 public:
  RawCaller(bool is_tcp, std::string_view address, std::uint32_t window);

  std::optional<Message> exchange(const Message& call) override {
    return send(call) ? receive() : std::nullopt;
  }
  bool send(const Message& call);
  // The next reply behind its XID; nullopt: the connection ends before it, or time is up.
  std::optional<Message> receive();
  // Nothing more is said, and the connection ends.
  bool ends();
  // Over RPC-over-RDMA only.
  RawTalk& talk() { return *talk_; }

 private:
  std::unique_ptr<RawPeer> peer_;  // of records
  std::optional<RawTalk> talk_;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_GSS_CALLER_H_
