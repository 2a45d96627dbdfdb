// Calls and Replies as whole RPC messages, over both transports: with a service and a client of the
// typed API at the other end, and joined to a relay. Through the public headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/message_service.h"
#include "support/checked_reply.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "support/test_bed.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kOtherProgram = 0x20010099;
constexpr std::size_t kReplyHeaderSize = 24;  // of a success with an empty verifier, bytes

class WholeMessages : public ::testing::TestWithParam<bool> {
 protected:
  WholeMessages() : bed_(make_bed(GetParam())) {}

  // With the typed TestService, and `rest` for everything else.
  void start(MessageService* rest = nullptr, const ClientOptions& options = {}) {
    server_.emplace(bed_->listen({}));
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    if (rest != nullptr) {
      ASSERT_TRUE(server_->serve_messages(*rest));
    }
    client_.emplace(bed_->connect(*server_, options));
    ASSERT_TRUE(run_until([this] { return client_->connected(); }));
  }
  bool run_until(const std::function<bool()>& condition) {
    return bed_->run_until(condition, [this] {
      server_->progress();
      client_->progress();
      if (relay_server_) relay_server_->progress();
    });
  }
  // Makes the call; `read` looks at its Reply.
  std::optional<Error> finish(Call call, const std::function<void(Reply&)>& read) {
    bool done = false;
    std::optional<Error> error;
    const auto started = client_->start(std::move(call), [&](Expected<Reply, Error> reply) {
      done = true;
      if (!reply) {
        error = reply.error();
      } else if (read) {
        read(*reply);
        reply->ignore_rest();
      }
    });
    if (!started) return started.error();
    EXPECT_TRUE(run_until([&] { return done; })) << "the call never ended";
    return error;
  }
  Call prepare_message() {
    auto call = client_->prepare_message();
    EXPECT_TRUE(call) << call.error().message();
    return std::move(*call);
  }

  std::unique_ptr<Bed> bed_;
  TestService service_;
  std::optional<Server> server_, relay_server_;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(OverEach, WholeMessages, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "tcp" : "rdma"; });

Message bytes_of(Reply& reply) {
  const Bytes rest = reply.results().xdr().rest();
  return {rest.begin(), rest.end()};
}

TEST_P(WholeMessages, CallIsSentAsItIsAndItsReplyIsHandedOver) {
  start();
  Call call = prepare_message();
  call.arguments().xdr().opaque_fixed(raw_call(0xabcd0001, TestService::kWhoAmI));
  ASSERT_EQ(finish(std::move(call),
                   [](Reply& reply) {
                     EXPECT_EQ(bytes_of(reply), join({raw_reply(0xabcd0001), words({0xffffffff})}));
                   }),
            std::nullopt);
}

TEST_P(WholeMessages, BytesByReferenceAreTheSameMessage) {
  start();
  const Message text = pattern(64, 3);
  Call call = prepare_message();
  const Message header = raw_call(9, TestService::kAbsorb);
  call.arguments().lend(Bytes(header).first(4));
  call.arguments().xdr().opaque_fixed(Bytes(header).subspan(4, 8));
  call.arguments().lend(Bytes(header).subspan(12));
  call.arguments().xdr().u32(64);
  call.arguments().lend(text);
  ASSERT_EQ(finish(std::move(call),
                   [](Reply& reply) {
                     EXPECT_EQ(bytes_of(reply), join({raw_reply(9), words({64})}));
                   }),
            std::nullopt);
}

// A call that is longer than a message is a Long Call then: no item of it may be placed.
TEST_P(WholeMessages, LentBytesMayBeLong) {
  start();
  const Message text = pattern(100'000, 3);
  Call call = prepare_message();
  call.arguments().xdr().opaque_fixed(raw_call(9, TestService::kAbsorb));
  call.arguments().xdr().u32(100'000);
  call.arguments().lend(text);
  ASSERT_EQ(finish(std::move(call),
                   [](Reply& reply) {
                     EXPECT_EQ(bytes_of(reply), join({raw_reply(9), words({100'000})}));
                   }),
            std::nullopt);
  if (!GetParam()) {
    EXPECT_EQ(client_->counters().long_calls, 1U);
  }
}

TEST_P(WholeMessages, EligibleItemsArePlaced) {
  start();
  const Message data = pattern(300'001, 5);
  Message place(data.size());
  Call call = prepare_message();
  call.arguments().xdr().opaque_fixed(raw_call(10, TestService::kEcho));
  call.arguments().xdr().u32(300'001);
  call.arguments().bulk_fixed(data);
  call.place_result(place);
  ASSERT_EQ(finish(std::move(call),
                   [&](Reply& reply) {
                     reply.results().xdr().skip(kReplyHeaderSize, "header");
                     EXPECT_TRUE(std::ranges::equal(reply.results().bulk(400'000, "data"), data));
                     EXPECT_EQ(reply.results().last_was_placed(), !GetParam());
                     EXPECT_EQ(reply.finish(), std::nullopt);
                   }),
            std::nullopt);
  if (!GetParam()) {
    EXPECT_TRUE(place == data);
  }
}

TEST_P(WholeMessages, ReplyThatIsLongerThanAMessageComesWhole) {
  start();
  Call call = prepare_message();
  call.arguments().xdr().opaque_fixed(join({raw_call(11, TestService::kProduce), words({50'000})}));
  call.expect_results(60'000);
  ASSERT_EQ(finish(std::move(call),
                   [](Reply& reply) {
                     EXPECT_EQ(bytes_of(reply).size(), kReplyHeaderSize + 4 + 50'000);
                     EXPECT_EQ(first(bytes_of(reply), 28), join({raw_reply(11), words({50'000})}));
                   }),
            std::nullopt);
}

TEST_P(WholeMessages, RefusalsAreTheCallersToRead) {
  start();
  Call call = prepare_message();
  const Message unknown = words({12, 0, 2, kOtherProgram, 1, 1, 0, 0, 0, 0});
  call.arguments().xdr().opaque_fixed(unknown);
  ASSERT_EQ(finish(std::move(call),
                   [](Reply& reply) {  // MSG_ACCEPTED, PROG_UNAVAIL
                     EXPECT_EQ(bytes_of(reply), words({12, 1, 0, 0, 0, 1}));
                   }),
            std::nullopt);
}

TEST_P(WholeMessages, AreNotSentIfTheyDoNotBeginAsCalls) {
  start();
  for (const Message& bad : {Message{}, words({1}), words({1, 1, 0, 0, 0, 0})}) {
    Call call = prepare_message();
    call.arguments().lend(bad);
    const auto error = finish(std::move(call), {});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Errc::kBadArguments) << error->message();
  }
  Call call = prepare_message();
  const Message odd = raw_call(1, TestService::kWhoAmI);
  call.arguments().lend(Bytes(odd).first(odd.size() - 1));
  const auto error = finish(std::move(call), {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kTooLarge) << error->message();
  EXPECT_EQ(service_.calls, 0U);
}

TEST_P(WholeMessages, XidOfACallUnderWayIsRefused) {
  start();
  const auto hold = [this] {
    Call call = prepare_message();
    call.arguments().xdr().opaque_fixed(raw_call(5, TestService::kHold));
    return client_->start(std::move(call), [](Expected<Reply, Error>) {});
  };
  ASSERT_TRUE(hold());
  const auto second = hold();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kBadArguments) << second.error().message();
  ASSERT_TRUE(run_until([this] { return service_.held.size() == 1; }));
  service_.held[0]->succeed();
  service_.held.clear();
  ASSERT_TRUE(run_until([this] { return client_->calls_in_flight() == 0; }));
  EXPECT_TRUE(hold());
  ASSERT_TRUE(run_until([this] { return service_.held.size() == 1; }));
  service_.held[0]->succeed();
  ASSERT_TRUE(run_until([this] { return client_->calls_in_flight() == 0; }));
}

// Answers with bytes by reference, in forms that have no count word in front.
class Referrer final : public Service {
 public:
  static constexpr std::uint32_t kProgram = 0x20010055;
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    return &kTraits;
  }
  void call(CallContext& context) override {
    ++calls;
    context.results().bulk_fixed(fixed_);
    context.results().xdr().u32(calls);
    context.results().lend(lent_);
    context.succeed();
  }
  Message expected() const { return join({fixed_, Message(3), words({1}), lent_}); }

  std::uint32_t calls = 0;

 private:
  static constexpr ProcedureTraits kTraits{.is_idempotent = false};
  const Message fixed_ = pattern(17, 1), lent_ = pattern(64, 2);
};

TEST_P(WholeMessages, RememberedResultsAreTheSameBytes) {
  Referrer referrer;
  start();
  ASSERT_TRUE(server_->add(Referrer::kProgram, 1, referrer));
  for (int i = 0; i < 2; ++i) {
    Call call = prepare_message();
    call.arguments().xdr().opaque_fixed(words({21, 0, 2, Referrer::kProgram, 1, 1, 0, 0, 0, 0}));
    ASSERT_EQ(finish(std::move(call),
                     [&](Reply& reply) {
                       EXPECT_EQ(bytes_of(reply), join({raw_reply(21), referrer.expected()})) << i;
                     }),
              std::nullopt);
  }
  EXPECT_EQ(referrer.calls, 1U);
  EXPECT_EQ(server_->counters().cached_replies, 1U);
}

// Records what a call that goes to a MessageService is made of.
class Recorder final : public MessageService {
 public:
  void call(CallContext& context) override {
    const Bytes rest = context.arguments().xdr().rest();
    message.assign(rest.begin(), rest.end());
    for (const auto& item : context.arguments().placed()) items.push_back(item);
    procedure = context.procedure();
    credential = context.credential().flavor;
    if (!answer.empty()) {
      context.results().xdr().opaque_fixed(answer);
      context.succeed();
    } else {
      context.fail(AcceptStatus::kSystemErr);
    }
  }

  Message answer;
  Message message;
  std::vector<MessageReader::Placed> items;
  Procedure procedure{};
  AuthFlavor credential{};
};

TEST_P(WholeMessages, ServiceGetsTheMessageThatWasSent) {
  Recorder recorder;
  start(&recorder);
  // A credential and a verifier of flavors that nothing here knows.
  const Message sent =
      words({77, 0, 2, kOtherProgram, 4, 5, 0x77, 4, 0x01020304, 0x78, 8, 1, 2, 0xcafe});
  recorder.answer = words({77, 1, 0, 0x78, 4, 0x99, 0, 0xbeef});
  Call call = prepare_message();
  call.arguments().xdr().opaque_fixed(sent);
  ASSERT_EQ(
      finish(std::move(call), [&](Reply& reply) { EXPECT_EQ(bytes_of(reply), recorder.answer); }),
      std::nullopt);
  EXPECT_EQ(recorder.message, sent);
  EXPECT_EQ(recorder.procedure, (Procedure{kOtherProgram, 4, 5}));
  EXPECT_EQ(recorder.credential, AuthFlavor{0x77});
}

// Neither NULL, nor another version of RPC, nor a header that ends too early is answered before it.
TEST_P(WholeMessages, ServiceGetsWhateverNoOtherWasAddedFor) {
  Recorder recorder;
  start(&recorder);
  for (const Message& sent :
       {words({80, 0, 2, kOtherProgram, 1, 0, 0, 0, 0, 0}), words({81, 0, 3, 1, 1, 1}),
        words({82, 0}), words({83, 0, 2, TestService::kProgram, 99, 1, 0, 0, 0, 0})}) {
    Call call = prepare_message();
    call.arguments().xdr().opaque_fixed(sent);
    recorder.answer = join({first(sent, 4), words({1, 0, 0, 0, 5})});
    ASSERT_EQ(
        finish(std::move(call), [&](Reply& reply) { EXPECT_EQ(bytes_of(reply), recorder.answer); }),
        std::nullopt);
    EXPECT_EQ(recorder.message, sent);
  }
  EXPECT_EQ(service_.calls, 0U);
}

TEST_P(WholeMessages, ServicesThatWereAddedGoFirst) {
  Recorder recorder;
  start(&recorder);
  auto call = client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
  ASSERT_TRUE(call);
  call->arguments().bulk({});
  ASSERT_EQ(finish(std::move(*call), {}), std::nullopt);
  EXPECT_EQ(service_.calls, 1U);
  EXPECT_TRUE(recorder.message.empty());
  EXPECT_FALSE(server_->serve_messages(recorder)) << "there is one already";
}

TEST_P(WholeMessages, ServiceThatFailsIsAnsweredForByTheLibrary) {
  Recorder recorder;
  start(&recorder);
  auto call = client_->prepare({kOtherProgram, 1, 1});
  ASSERT_TRUE(call);
  const auto error = finish(std::move(*call), {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kServerFault) << error->message();
}

// Passes Calls on to another server, and Replies back, without a look at credentials or arguments;
// the only binding that it knows is that of TestService::kEcho.
class Relay final : public MessageService {
 public:
  explicit Relay(Client& upstream) : upstream_(upstream) {}

  void call(CallContext& context) override {
    auto made = upstream_.prepare_message(4096);
    if (!made) return context.fail(AcceptStatus::kSystemErr);
    Bytes stream = context.arguments().xdr().rest();
    std::size_t done = 0;  // of the message, bytes
    for (const auto& item : context.arguments().placed()) {
      made->arguments().xdr().opaque_fixed(stream.first(item.position - done));
      stream = stream.subspan(item.position - done);
      made->arguments().bulk_fixed(item.data);
      done = item.position + xdr::padded(item.data.size());
    }
    made->arguments().lend(stream);
    const MutableBytes place = context.result_memory(kEchoMax);
    made->place_result(place);
    auto started = upstream_.start(std::move(*made), [&context](Expected<Reply, Error> reply) {
      if (!reply) return context.fail(AcceptStatus::kSystemErr);
      MessageReader& results = reply->results();
      reply->ignore_rest();  // the one who called checks it
      context.results().xdr().opaque_fixed(results.xdr().rest().first(kReplyHeaderSize));
      results.xdr().skip(kReplyHeaderSize, "header");
      if (context.procedure().number == TestService::kEcho) {
        context.results().bulk(results.bulk(kEchoMax, "data"));
      } else {
        context.results().xdr().opaque_fixed(results.xdr().rest());
      }
      context.succeed();
    });
    if (!started) context.fail(AcceptStatus::kSystemErr);
  }

 private:
  static constexpr std::uint32_t kEchoMax = 400'000;
  Client& upstream_;
};

TEST_P(WholeMessages, RelayPassesCallsOnWithTheirCredentials) {
  // client_ and the relay's server speak the transport of the test; upstream is RDMA. One network,
  // since time passes in it when nothing else is left to do.
  auto* const simulated = dynamic_cast<SimulatedBed*>(bed_.get());
  SimulatedBed another;
  SimulatedBed& upstream_bed = simulated != nullptr ? *simulated : another;
  server_.emplace(upstream_bed.listen({}));
  ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
  Client upstream = upstream_bed.connect(*server_, {});
  Relay relay(upstream);
  relay_server_.emplace(bed_->listen({}));
  ASSERT_TRUE(relay_server_->serve_messages(relay));
  client_.emplace(bed_->connect(*relay_server_, {}));
  const auto run = [&](const std::function<bool()>& condition) {
    for (int left = 1'000'000; left > 0 && !condition(); --left) {
      server_->progress();
      upstream.progress();
      client_->progress();
      relay_server_->progress();
      (void)upstream_bed.network.step();
    }
    return condition();
  };
  ASSERT_TRUE(run([&] { return client_->connected() && upstream.connected(); }));

  AuthSys sys;
  sys.uid = 4711;
  client_->identity().use(sys);
  std::optional<std::uint32_t> uid;
  auto who = client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kWhoAmI});
  ASSERT_TRUE(who);
  ASSERT_TRUE(client_->start(std::move(*who), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    uid = read(*reply)->xdr().u32("uid");
  }));
  ASSERT_TRUE(run([&] { return uid.has_value(); }));
  EXPECT_EQ(uid, 4711U);

  const Message data = pattern(300'001, 8);
  Message place(data.size()), got;
  auto echo = client_->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
  ASSERT_TRUE(echo);
  echo->arguments().bulk(data);
  echo->place_result(place);
  ASSERT_TRUE(client_->start(std::move(*echo), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes bulk = read(*reply)->bulk(400'000, "data");
    got.assign(bulk.begin(), bulk.end());
  }));
  ASSERT_TRUE(run([&] { return !got.empty(); }));
  EXPECT_TRUE(got == data);
  client_.reset();
  relay_server_.reset();
  server_.reset();  // before its network
}

// The credential may be good for one transmission only, and nothing here can write another.
TEST(WholeMessagesOverRdma, AreSentOnceAlsoWithReconnection) {
  SimulatedBed bed;
  TestService service;
  auto server = std::make_unique<Server>(bed.listen({}));
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  ClientOptions options;
  options.reconnect.enabled = true;
  Client client = bed.connect(*server, options);
  const auto run = [&](const std::function<bool()>& condition) {
    return bed.run_until(condition, [&] {
      if (server) server->progress();
      client.progress();
    });
  };
  ASSERT_TRUE(run([&] { return client.connected(); }));
  std::optional<Error> error;
  auto call = client.prepare_message();
  ASSERT_TRUE(call);
  call->arguments().xdr().opaque_fixed(raw_call(1, TestService::kHold));
  ASSERT_TRUE(client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
    if (!reply) error = reply.error();
  }));
  ASSERT_TRUE(run([&] { return !service.held.empty(); }));
  server.reset();
  ASSERT_TRUE(run([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, Errc::kConnectionLost) << error->message();
}

}  // namespace
}  // namespace rpcrdma::test
