// Backward calls (RFC 8167) with a peer that says whatever it likes, in bytes on a real connection:
// rows P23 and P24 of docs/invariants.md.
#include <gtest/gtest.h>

#include <functional>

#include "rdma/siwarp/provider.h"
#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "rpcrdma/backward.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kXid = 0x55000001;
constexpr std::uint32_t kErrorType = 4, kErrChunk = 2;
const Message kReadList = words({1, 40, 0x4711, 100, 0, 0x1000, 0, 0, 0});
const Message kWriteList = words({0, 1, 1, 0x4711, 100, 0, 0x1000, 0, 0});

Message backward_call(std::uint32_t xid, std::uint32_t procedure, const Message& arguments = {}) {
  return join({raw_header(xid, 0), kNoLists, raw_call(xid, procedure), arguments});
}

// --- P23: a client that serves

class HostileBackwardServer : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBackwardCalls = 2;

  HostileBackwardServer() {
    provider_ = std::move(rdma::siwarp::make_provider({}).value());
    ClientOptions options;
    options.backward_calls = kBackwardCalls;
    auto connecting = ConnectingClient::connect_on(*provider_, listener_.address(), options);
    EXPECT_TRUE(connecting);
    client_ = std::move(*connecting);
    EXPECT_TRUE(
        rpcrdma::Backward::serve(*client_, TestService::kProgram, TestService::kVersion, service_));
    auto peer = listener_.accept();
    EXPECT_FALSE(peer->respond(RawTalk::mpa(true)).empty());
    talk_ = std::make_unique<RawTalk>(std::move(peer), true);
    EXPECT_TRUE(talk_->peer().pump_until([&] { return client_->connected(); }));
  }
  ~HostileBackwardServer() override {
    talk_.reset();
    client_.reset();
  }

  // Returns what comes back before the answer to a NULL Call behind it.
  std::vector<Words> answers_to(const Message& message) {
    constexpr std::uint32_t kMarker = 0x55ffffff;
    EXPECT_TRUE(talk_->send(message));
    EXPECT_TRUE(talk_->send(backward_call(kMarker, TestService::kNull)));
    std::vector<Words> answers;
    for (;;) {
      const auto answer = talk_->next_message();
      if (!answer) {
        ADD_FAILURE() << "the connection has ended, or is stuck";
        return answers;
      }
      answers.push_back(to_words(*answer));
      if (answers.back().at(0) == kMarker) break;
    }
    EXPECT_EQ(answers.back(),
              (Words{kMarker, 1, kBackwardCalls, 0, 0, 0, 0, kMarker, 1, 0, 0, 0, 0}));
    answers.pop_back();
    return answers;
  }
  const std::vector<Words> kRefused{{kXid, 1, kBackwardCalls, kErrorType, kErrChunk}};

  TestService service_;
  std::unique_ptr<rdma::Provider> provider_;
  std::optional<Client> client_;
  test::RawListener listener_{[this] {
    if (client_) client_->progress();
  }};
  std::unique_ptr<RawTalk> talk_;
};

TEST_F(HostileBackwardServer, CallsWithChunksAreRefused) {  // P23
  for (const Message& lists : {kReadList, kWriteList}) {
    EXPECT_EQ(answers_to(join({raw_header(kXid, 0), lists, raw_call(kXid, TestService::kEcho)})),
              kRefused);
  }
  EXPECT_EQ(service_.calls, 0U);
}

TEST_F(HostileBackwardServer, AnswersThatFitNoMessageAreErrors) {  // P23
  EXPECT_EQ(answers_to(backward_call(kXid, TestService::kProduce, words({5000}))), kRefused);
}

TEST_F(HostileBackwardServer, ProgramsAndArgumentsAreJudgedAsOnAServer) {  // P6 to P8
  const auto answer = answers_to(backward_call(kXid, 99));
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].back(), 3U) << "PROC_UNAVAIL";
  const auto garbage = answers_to(backward_call(kXid, TestService::kEcho, words({0xffffffff})));
  ASSERT_EQ(garbage.size(), 1U);
  EXPECT_EQ(garbage[0].back(), 4U) << "GARBAGE_ARGS";
}

TEST_F(HostileBackwardServer, MessagesThatAreNoCallsAreDropped) {
  const std::vector<Message> rows = {
      join({raw_header(kXid, 1), kReadList}),  // NOMSG has no RPC message that could tell
      join({raw_header(kXid, 3)}),             // DONE
      join({raw_header(kXid, 2), words({4, 4}), kNoLists, raw_call(kXid, 1)}),  // MSGP
      join({raw_header(kXid, 0, 2), kNoLists, raw_call(kXid, 1)}),              // version 2
      join({raw_header(kXid, 0), kNoLists, raw_call(kXid + 1, 1)}),             // another XID
      join({raw_header(kXid, 0), kNoLists, words({kXid})}),                     // no msg_type
      join({raw_header(kXid, 0), kNoLists, words({kXid, 7, 0, 0, 0, 0})}),      // msg_type 7
      join({raw_header(kXid, kErrorType), words({kErrChunk})}),                 // for no Call
      {},
  };
  for (const Message& row : rows) EXPECT_EQ(answers_to(row), std::vector<Words>{});
  EXPECT_EQ(service_.calls, 0U);
}

TEST_F(HostileBackwardServer, MoreCallsThanGrantedEndTheConnection) {  // P16
  for (std::uint32_t i = 0; i <= kBackwardCalls; ++i) {
    ASSERT_TRUE(talk_->send(backward_call(kXid + i, TestService::kHold)));
  }
  EXPECT_TRUE(talk_->fault_at_end()) << "the connection lives";
  EXPECT_EQ(service_.held.size(), kBackwardCalls);
  for (CallContext* context : service_.held) context->succeed();  // for nobody
}

TEST_F(HostileBackwardServer, OutlivesACallWhosePeerIsGone) {  // P19
  ASSERT_TRUE(talk_->send(backward_call(kXid, TestService::kHold)));
  ASSERT_TRUE(talk_->peer().pump_until([&] { return service_.held.size() == 1; }));
  talk_->peer().reset();
  ASSERT_TRUE(talk_->peer().pump_until([&] { return client_->ended(); }));
  service_.held.front()->results().xdr().u32(1);
  service_.held.front()->succeed();  // for nobody
  client_->progress();
}

// --- P24: a server that calls

// Takes a Call of procedure 1 for the word that its client is ready, and keeps all others.
class Caller final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{};
    return &kAny;
  }
  void call(CallContext& context) override {
    if (context.procedure().number != 1) return held.push_back(&context);
    if (auto made = rpcrdma::Backward::client_of(context)) client.emplace(std::move(*made));
    context.succeed();
  }
  std::optional<Client> client;
  std::vector<CallContext*> held;
};

class HostileBackwardClient : public ::testing::Test {
 protected:
  HostileBackwardClient() {
    provider_ = std::move(rdma::siwarp::make_provider({}).value());
    ServerOptions options;
    options.backward_calls = 4;
    auto listening = ServerImpl::listen_on(*provider_, "127.0.0.1:0", options);
    EXPECT_TRUE(listening);
    server_ = std::move(*listening);
    EXPECT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, caller_));
    auto peer = test::RawPeer::connect(server_->address(), [this] { server_->progress(); });
    EXPECT_FALSE(peer->initiate(RawTalk::mpa(true)).empty());
    talk_.emplace(std::move(peer), true);
    expect_alive();
    EXPECT_TRUE(caller_.client);
  }
  // A forward Call is answered, and nothing else comes.
  void expect_alive() {
    EXPECT_TRUE(talk_->send(backward_call(++forward_xid_, 1)));  // looks the same both ways
    const auto answer = talk_->next_message();
    ASSERT_TRUE(answer) << "the connection has ended, or is stuck";
    EXPECT_EQ(to_words(*answer).at(0), forward_xid_);
    EXPECT_EQ(to_words(*answer).at(8), 1U) << "REPLY";
  }
  // Begins a backward call and gives its XID.
  std::uint32_t start() {
    auto call = caller_.client->prepare({77, 1, 1});
    EXPECT_TRUE(call);
    error_.reset();
    EXPECT_TRUE(caller_.client->start(std::move(*call), [this](Expected<Reply, Error> reply) {
      ++ended_;
      if (!reply) error_ = reply.error().code;
    }));
    const auto message = talk_->next_message();
    EXPECT_TRUE(message);
    const Words seen = to_words(*message);
    EXPECT_EQ(Words(seen.begin() + 1, seen.begin() + 7), (Words{1, 4, 0, 0, 0, 0}));
    EXPECT_EQ(seen.at(8), 0U) << "CALL";
    return seen.at(0);
  }
  void expect_end(const Message& reply, std::optional<Errc> error) {
    const int before = ended_;
    ASSERT_TRUE(talk_->send(reply));
    ASSERT_TRUE(talk_->peer().pump_until([&] { return ended_ == before + 1; }));
    EXPECT_EQ(error_, error);
    expect_alive();
  }

  std::unique_ptr<rdma::Provider> provider_;
  Caller caller_;
  std::optional<Server> server_;
  std::optional<RawTalk> talk_;
  std::uint32_t forward_xid_ = 0x66000000;
  int ended_ = 0;
  std::optional<Errc> error_;
};

TEST_F(HostileBackwardClient, RepliesEndTheirCallWellOrBadly) {  // P11, P13
  std::uint32_t xid = start();
  expect_end(join({raw_header(xid, 0), kNoLists, raw_reply(xid)}), std::nullopt);
  xid = start();
  expect_end(join({raw_header(xid, 0), kWriteList, raw_reply(xid)}), Errc::kBadReply);
  xid = start();
  expect_end(join({raw_header(xid, kErrorType), words({kErrChunk})}), Errc::kChunk);
  xid = start();
  expect_end(join({raw_header(xid, kErrorType), words({1, 1, 1})}), Errc::kVersion);
}

// The Receives of its backward calls are there, and are not for them.
TEST_F(HostileBackwardClient, MoreCallsThanGrantedEndTheConnection) {  // P16
  constexpr std::uint32_t kCredits = 64;
  start();
  for (std::uint32_t i = 0; i <= kCredits; ++i) {
    ASSERT_TRUE(talk_->send(backward_call(kXid + i, 2)));
  }
  EXPECT_TRUE(talk_->fault_at_end()) << "the connection lives";
  EXPECT_EQ(caller_.held.size(), kCredits);
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(error_, Errc::kConnectionLost);
  for (CallContext* context : caller_.held) context->succeed();  // for nobody
  EXPECT_TRUE(talk_->peer().pump_until([&] { return server_->connections() == 0; }));
  EXPECT_EQ(server_->counters().credit_overruns, 1U);
  EXPECT_EQ(server_->memory_in_use(), 0U);
}

TEST_F(HostileBackwardClient, ThePeersEndEndsTheCalls) {  // P19
  const std::uint32_t xid = start();
  const Message fpdu = talk_->send_fpdu(join({raw_header(xid, 0), kNoLists, raw_reply(xid)}));
  ASSERT_TRUE(talk_->peer().send(test::first(fpdu, fpdu.size() - 1)));
  talk_->peer().finish();
  ASSERT_TRUE(talk_->peer().pump_until([&] { return server_->connections() == 0; }));
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(error_, Errc::kConnectionLost);
  EXPECT_EQ(server_->memory_in_use(), 0U);
}

TEST_F(HostileBackwardClient, RepliesAndErrorsForNothingAreDropped) {  // P24
  const std::uint32_t xid = start();
  for (const std::uint32_t other : {xid + 1, forward_xid_, 0U}) {
    EXPECT_TRUE(talk_->send(join({raw_header(other, 0), kNoLists, raw_reply(other)})));
    EXPECT_TRUE(talk_->send(join({raw_header(other, kErrorType), words({kErrChunk})})));
    EXPECT_TRUE(talk_->send(join({raw_header(other, 3)})));
    expect_alive();
  }
  EXPECT_EQ(ended_, 0);
  expect_end(join({raw_header(xid, 0), kNoLists, raw_reply(xid)}), std::nullopt);
  // A second reply to it is one to nothing.
  EXPECT_TRUE(talk_->send(join({raw_header(xid, 0), kNoLists, raw_reply(xid)})));
  expect_alive();
  EXPECT_EQ(ended_, 1);
}

}  // namespace
}  // namespace rpcrdma::test
