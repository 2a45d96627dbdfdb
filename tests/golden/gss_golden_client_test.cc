// ClientGss in the place of the Linux client of the captures (tests/golden/gss/README.txt): it gets
// the calls, the tokens and the replies that the kernel got, and has to make what that has sent.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "golden/gss_capture.h"
#include "gss/client_auth.h"
#include "gss/message.h"
#include "oncrpc/message.h"
#include "rpcrdma/auth.h"
#include "support/gss_body.h"
#include "support/hex.h"
#include "support/rfc4121_context.h"

namespace rpcrdma::gss {
namespace {

using test::GssCall;
using test::GssCapture;
using test::Rfc4121Context;
using test::to_hex;

using Message = std::vector<std::byte>;

class AtOnce final : public Executor {
 public:
  void submit(Work work) override { work(); }
};

class Ended final : public AuthStep {
 public:
  void finish() override { ++count; }
  int count = 0;
};

// Its first step gives the token that Linux sent; its second one wants that of the reply.
class Replayed final : public Rfc4121Context {
 public:
  Replayed(const test::Rfc4121Key& key, Bytes own, Bytes peers)
      : Rfc4121Context(key, Side::kInitiator), own_(own), peers_(peers) {}

  Status step(Bytes token, Message& answer) override {
    answer.clear();
    if (token.empty()) {
      answer.assign(own_.begin(), own_.end());
      return {Status::kContinueNeeded};
    }
    return {to_hex(token) == to_hex(peers_) ? Status::kComplete : Status::kFailure};
  }

 private:
  const Bytes own_, peers_;
};

// A context: how it was made, both of its ends, and the client that has it.
class Replay final : public Mechanism {
 public:
  Replay(const test::Rfc4121Key& key, Bytes arguments, Bytes results, const Credential& verifier)
      : server(key, Rfc4121Context::Side::kAcceptor),
        peer(key, Rfc4121Context::Side::kInitiator),
        init_arguments(arguments),
        init_results(results),
        init_verifier(verifier),
        key_(key) {}

  Expected<std::unique_ptr<Context>, Status> initiate(std::string_view /*service*/) override {
    const Bytes own = xdr::Reader(init_arguments).opaque(64U << 10U, "gss_token");
    auto made = std::make_unique<Replayed>(key_, own, decode_init_results(init_results)->token);
    context = made.get();
    return made;
  }
  Expected<std::unique_ptr<Context>, Status> accept() override {
    return Unexpected<Status>(Status{Status::kFailure});
  }
  // The service is known with the first call.
  ClientGss& client_for(Service service) {
    if (!client_) {
      client_ = std::make_unique<ClientGss>(*this, executor_, ClientGss::Settings{"nfs@h", service},
                                            [] { return Instant{}; });
    }
    return *client_;
  }

  Rfc4121Context server, peer;  // beside the client's own
  const Bytes init_arguments, init_results;
  const Credential init_verifier;
  Rfc4121Context* context = nullptr;  // of the client

 private:
  const test::Rfc4121Key key_;
  AtOnce executor_;
  std::unique_ptr<ClientGss> client_;
};

// Keeps what a client has to do for one call, until it is answered.
struct UnderWay {
  Replay* replay = nullptr;
  ClientGss* client = nullptr;
  GssCall captured;  // the last transmission
  CallSeal seal;
  std::unique_ptr<Ended> step = std::make_unique<Ended>();
  bool is_waiting = false;  // for the end of its step, which nothing will bring
};

struct ClientCounts {
  int sealed = 0, opened = 0;
  int refused = 0;  // denied, or GARBAGE_ARGS
  int late = 0;     // replies to calls that were sent again
  int unanswered = 0;
  bool operator==(const ClientCounts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const ClientCounts& counts) {
  return out << "sealed " << counts.sealed << ", opened " << counts.opened << ", refused "
             << counts.refused << ", late " << counts.late << ", unanswered " << counts.unanswered;
}

class ClientPlayback {
 public:
  explicit ClientPlayback(const GssCapture& capture) : capture_(capture) {
    for (const auto& message : capture.messages) {
      SCOPED_TRACE(message.where);
      message.is_call ? take_call(message.bytes) : take_reply(message.bytes);
      if (testing::Test::HasFatalFailure()) break;
    }
    for (auto& [xid, call] : under_way_) {
      forget(call);
      ++counts_.unanswered;
    }
  }
  const ClientCounts& counts() const noexcept { return counts_; }

 private:
  void take_call(Bytes message) {
    const auto captured = test::open_gss_call(message);
    if (!captured) return;  // AUTH_NONE, AUTH_SYS
    if (Control{captured->credential.control} == Control::kInit) {
      inits_[captured->header.xid] = captured->arguments;
      return;
    }
    const Bytes handle = captured->credential.handle;
    const auto found = replays_.find(Message(handle.begin(), handle.end()));
    ASSERT_NE(found, replays_.end());
    UnderWay& call = under_way_[captured->header.xid];
    call.replay = found->second.get();
    call.client = &call.replay->client_for(Service{captured->credential.service});
    call.captured = *captured;
    send(call);
  }

  void send(UnderWay& call) {
    const GssCall& captured = call.captured;
    const Service service{captured.credential.service};
    const bool is_last = Control{captured.credential.control} == Control::kDestroy;
    Bytes arguments = captured.arguments;
    std::optional<Message> plain;
    if (service != Service::kNone && !is_last) {
      plain = test::unwrap_body(call.replay->server, service, captured.credential.sequence,
                                captured.arguments);
      ASSERT_TRUE(plain);
      arguments = *plain;
    }
    call.seal.xid = static_cast<std::uint32_t>(captured.header.xid);
    call.seal.procedure = captured.header.procedure;
    call.seal.is_last = is_last;
    call.seal.arguments = {&arguments, service != Service::kNone && !is_last ? 1U : 0U};
    if (call.replay->context == nullptr) make_context(call);
    if (testing::Test::HasFatalFailure()) return;
    call.replay->context->set_next_number(Rfc4121Context::number_of(captured.header.verifier.body));
    seal(call);
    ASSERT_FALSE(call.is_waiting);
    ASSERT_FALSE(call.seal.failure) << call.seal.failure->cause;
    ASSERT_FALSE(call.seal.is_control);
    expect_as_captured(call, arguments);
    ++counts_.sealed;
  }

  static void seal(UnderWay& call) {
    call.seal.is_control = call.seal.again = false;
    call.seal.wrapped.reset();
    call.seal.enclosure.reset();
    const int ended = call.step->count;
    const StepEnd end = call.client->seal(call.seal, *call.step);
    call.is_waiting = end == StepEnd::kPending && call.step->count == ended;
  }

  // A client must not be left before its step has ended.
  static void forget(UnderWay& call) {
    if (call.seal.state != nullptr && !call.is_waiting) call.client->forget(call.seal);
  }

  static void make_context(UnderWay& call) {
    seal(call);
    ASSERT_TRUE(call.seal.is_control);
    ASSERT_TRUE(call.seal.wrapped);
    EXPECT_EQ(to_hex(*call.seal.wrapped), to_hex(call.replay->init_arguments));
    call.seal.reply_verifier = call.replay->init_verifier;
    Message answer(call.replay->init_results.begin(), call.replay->init_results.end());
    call.seal.results = answer;
    (void)call.client->open(call.seal, *call.step);
    ASSERT_FALSE(call.seal.failure) << call.seal.failure->cause;
    ASSERT_TRUE(call.seal.again);
  }

  // The header, and the arguments as they are protected.
  static void expect_as_captured(UnderWay& call, Bytes arguments) {
    const GssCall& captured = call.captured;
    const oncrpc::CallHeader header{captured.header.xid, call.seal.procedure, call.seal.credential,
                                    call.seal.verifier};
    EXPECT_EQ(header, captured.header)
        << to_hex(header.credential.body) << " / " << to_hex(header.verifier.body);
    const Service service{captured.credential.service};
    if (call.seal.is_last || service == Service::kNone) {
      EXPECT_FALSE(call.seal.wrapped || call.seal.enclosure);
      return;
    }
    ASSERT_TRUE(call.seal.wrapped || call.seal.enclosure);
    const Message body = test::join_body({&arguments, 1}, call.seal.wrapped, call.seal.enclosure);
    if (service == Service::kIntegrity) {
      EXPECT_EQ(to_hex(body), to_hex(captured.arguments));
      return;
    }
    EXPECT_EQ(body.size(), captured.arguments.size());
    const auto opened =
        test::unwrap_body(call.replay->server, service, captured.credential.sequence, body);
    ASSERT_TRUE(opened);
    EXPECT_EQ(to_hex(*opened), to_hex(arguments));
  }

  void take_reply(Bytes message) {
    xdr::Reader reader(message);
    const auto reply = oncrpc::decode_reply(reader);
    ASSERT_TRUE(reply);
    const Bytes results = reader.rest();
    const auto* const accepted = std::get_if<oncrpc::Accepted>(&reply->body);
    if (const auto init = inits_.find(reply->xid); init != inits_.end()) {
      ASSERT_NE(accepted, nullptr);
      learn_context(init->second, results, accepted->verifier);
      inits_.erase(init);
      return;
    }
    const auto found = under_way_.find(reply->xid);
    if (found == under_way_.end()) return;  // to AUTH_NONE, AUTH_SYS
    UnderWay& call = found->second;
    if (accepted == nullptr) {
      refuse(call, Error{Errc::kDenied, "", "", ""}, std::get<oncrpc::AuthError>(reply->body).why);
      EXPECT_TRUE(call.seal.again);  // with another context
    } else if (!is_to_last_transmission(call, accepted->verifier)) {
      ++counts_.late;
      return;
    } else if (accepted->status != AcceptStatus::kSuccess) {
      call.seal.reply_verifier = accepted->verifier;
      refuse(call, Error{Errc::kBadArguments, "", "", ""}, std::nullopt);
      EXPECT_EQ(call.seal.failure->code, Errc::kBadArguments);
      EXPECT_TRUE(call.seal.again);
    } else {
      call.seal.reply_verifier = accepted->verifier;
      open(call, results);
    }
    forget(call);
    under_way_.erase(found);
  }

  void learn_context(Bytes arguments, Bytes results, const Credential& verifier) {
    const auto made = decode_init_results(results);
    ASSERT_TRUE(made);
    for (const auto& key : capture_.keys) {
      if (to_hex(key.handle) != to_hex(made->handle)) continue;
      replays_[key.handle] = std::make_unique<Replay>(key.key, arguments, results, verifier);
    }
  }

  static bool is_to_last_transmission(UnderWay& call, const Credential& verifier) {
    std::array<std::byte, xdr::kWordSize> number{};
    xdr::store_word(number.data(), call.captured.credential.sequence);
    const Bytes piece(number);
    return call.replay->peer.is_checksum_of({&piece, 1}, verifier.body);
  }

  void refuse(UnderWay& call, Error failure, std::optional<AuthStatus> denied) {
    call.seal.failure = std::move(failure);
    call.seal.denied = denied;
    (void)call.client->refused(call.seal, *call.step);
    ++counts_.refused;
  }

  void open(UnderWay& call, Bytes results) {
    Message received(results.begin(), results.end());
    call.seal.results = received;
    (void)call.client->open(call.seal, *call.step);
    ASSERT_FALSE(call.seal.failure) << call.seal.failure->cause;
    const Service service{call.captured.credential.service};
    Message plain(results.begin(), results.end());
    if (service != Service::kNone && !call.seal.is_last) {
      const auto opened =
          test::unwrap_body(call.replay->peer, service, call.captured.credential.sequence, results);
      ASSERT_TRUE(opened);
      plain = *opened;
    }
    EXPECT_EQ(to_hex(call.seal.results), to_hex(plain));
    ++counts_.opened;
  }

  const GssCapture& capture_;
  std::map<Xid, Bytes> inits_;                          // arguments of those under way
  std::map<Message, std::unique_ptr<Replay>> replays_;  // by handle
  std::map<Xid, UnderWay> under_way_;
  ClientCounts counts_;
};

struct ClientCase {
  std::string name;
  ClientCounts counts;
};
void PrintTo(const ClientCase& expected, std::ostream* out) {
  *out << expected.name;
}

class GssGoldenClient : public testing::TestWithParam<ClientCase> {};

TEST_P(GssGoldenClient, SealsAndOpensWhatLinuxDid) {
  const GssCapture capture = test::load_gss_capture(GetParam().name);
  const ClientPlayback playback(capture);
  EXPECT_EQ(playback.counts(), GetParam().counts);
}

INSTANTIATE_TEST_SUITE_P(Captures, GssGoldenClient,
                         testing::Values(ClientCase{"v3-krb5", {71, 71, 0, 0, 0}},
                                         ClientCase{"v3-krb5i", {70, 70, 0, 0, 0}},
                                         ClientCase{"v3-krb5p", {70, 70, 0, 0, 0}},
                                         ClientCase{"v4.1-krb5", {77, 77, 0, 0, 0}},
                                         ClientCase{"v4.1-krb5i", {77, 77, 0, 0, 0}},
                                         ClientCase{"v4.1-krb5p", {79, 79, 0, 0, 0}},
                                         ClientCase{"events", {148, 146, 2, 0, 0}},
                                         ClientCase{"k61-v3-krb5i", {74, 74, 0, 0, 0}},
                                         ClientCase{"k61-v3-krb5p-refused", {9, 0, 9, 0, 0}}),
                         [](const auto& each) { return test::name_of_test(each.param.name); });

}  // namespace
}  // namespace rpcrdma::gss
