// Profile::kRfc5666 with a peer that says whatever it likes, in bytes on a real connection: replies
// that it is to read and confirm, the Connection Configuration Protocol, and RDMA_MSGP.
#include <gtest/gtest.h>

#include <algorithm>

#include "rdma/siwarp/provider.h"
#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"
#include "support/checked_reply.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

using iwarp::Fault;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kFirstXid = 0x56000001;
constexpr std::uint32_t kMsg = 0, kNoMsg = 1, kPadded = 2, kDone = 3;
constexpr std::uint32_t kCredits = 8;

Message call_of_procedure(std::uint32_t xid, std::uint32_t procedure,
                          const Message& arguments = {}) {
  return join({raw_header(xid, kMsg), kNoLists, raw_call(xid, procedure), arguments});
}
Message configure(std::uint32_t xid, const Message& sizes) {
  return join(
      {raw_header(xid, kMsg), kNoLists, words({xid, 0, 2, 100417, 1, 1, 0, 0, 0, 0}), sizes});
}

// --- A server

class HostileToProfile : public ::testing::Test {
 protected:
  HostileToProfile() {
    provider_ = std::move(rdma::siwarp::make_provider({}).value());
    ServerOptions options;
    options.connection.profile = Profile::kRfc5666;
    options.connection.credits = kCredits;
    options.connection.rfc5666.done_timeout = std::chrono::milliseconds(200);
    auto listening =
        ServerImpl::listen_on(*provider_, "127.0.0.1:0", test::with_small_messages(options));
    EXPECT_TRUE(listening);
    server_ = std::move(*listening);
    EXPECT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    auto peer = test::RawPeer::connect(server_->address(), [this] { server_->progress(); });
    EXPECT_FALSE(peer->initiate(RawTalk::mpa(true)).empty());
    talk_.emplace(std::move(peer), true);
  }
  Words ask(const Message& message) {
    EXPECT_TRUE(talk_->send(message));
    const auto answer = talk_->next_message();
    EXPECT_TRUE(answer) << "the connection has ended, or is stuck";
    return answer ? to_words(*answer) : Words{};
  }
  void expect_alive() {
    EXPECT_EQ(ask(call_of_procedure(0x56ffffff, TestService::kNull)).at(0), 0x56ffffffU);
  }
  // A reply of so many bytes that is exposed, as its one Read segment says.
  struct Exposed {
    std::uint32_t tag, size;
    std::uint64_t address;
  };
  Exposed expose(std::uint32_t xid, std::uint32_t size = 5000) {
    const Words answer = ask(call_of_procedure(xid, TestService::kProduce, words({size})));
    EXPECT_EQ(Words(answer.begin(), answer.begin() + 6), (Words{xid, 1, kCredits, kNoMsg, 1, 0}));
    return {answer.at(6), answer.at(7), std::uint64_t{answer.at(8)} << 32U | answer.at(9)};
  }
  bool read(const Exposed& from) {
    return talk_->read_request(++reads_,
                               {SteeringTag{1}, 0, from.size, SteeringTag{from.tag}, from.address});
  }
  Message done(std::uint32_t xid) { return raw_header(xid, kDone); }
  void expect_end(Fault fault) {
    const auto told = talk_->fault_at_end();
    ASSERT_TRUE(told) << "the connection lives";
    EXPECT_EQ(*told, fault) << to_string(*told);
    EXPECT_TRUE(talk_->peer().pump_until(
        [&] { return server_->connections() == 0 && server_->memory_in_use() == 0; }));
  }

  TestService service_;
  std::unique_ptr<rdma::Provider> provider_;
  std::optional<Server> server_;
  std::optional<RawTalk> talk_;
  std::uint32_t reads_ = 0;
};

TEST_F(HostileToProfile, ReadsWhatIsExposedAndConfirmsIt) {
  const Exposed exposed = expose(kFirstXid);
  EXPECT_GT(server_->memory_in_use(), 0U);
  ASSERT_TRUE(read(exposed));
  std::size_t got = 0;
  while (got < exposed.size) {
    const auto fpdu = talk_->next();
    ASSERT_TRUE(fpdu);
    got += fpdu->payload.size();
  }
  EXPECT_EQ(got, exposed.size);
  ASSERT_TRUE(talk_->send(done(kFirstXid)));
  EXPECT_TRUE(talk_->peer().pump_until([&] { return server_->memory_in_use() == 0; }));
  expect_alive();
}

TEST_F(HostileToProfile, LosesItsConnectionInTimeIfItNeverConfirms) {
  expose(kFirstXid);
  expect_end(Fault::kNone);
}

TEST_F(HostileToProfile, IsEndedIfItReadsAfterItsDone) {
  const Exposed exposed = expose(kFirstXid);
  ASSERT_TRUE(talk_->send(done(kFirstXid)));
  expect_alive();
  ASSERT_TRUE(read(exposed));
  expect_end(Fault::kProtectionInvalidStag);
}

TEST_F(HostileToProfile, IsEndedIfItWritesToWhatItMayRead) {
  const Exposed exposed = expose(kFirstXid);
  ASSERT_TRUE(talk_->write(exposed.tag, exposed.address, words({1, 2})));
  const auto told = talk_->fault_at_end();
  ASSERT_TRUE(told);
  EXPECT_NE(*told, Fault::kNone);
}

TEST_F(HostileToProfile, DonesForNothingAreDropped) {
  for (std::uint32_t xid = 0; xid < 100; ++xid) {
    ASSERT_TRUE(talk_->send(done(xid)));
    if (xid % kCredits == 0) expect_alive();  // no more of them than there are Receives
  }
  expect_alive();
  EXPECT_EQ(server_->counters().messages_dropped, 100U);
}

TEST_F(HostileToProfile, ManyRepliesThatNobodyConfirmsAreBoundedByWhatMayBeExposed) {
  // Seventeen: one is held back, and the others are still the peer's to read.
  for (std::uint32_t i = 0; i < 16; ++i) expose(kFirstXid + i);
  ASSERT_TRUE(talk_->send(call_of_procedure(kFirstXid + 16, TestService::kProduce, words({5000}))));
  expect_alive();
  ASSERT_TRUE(talk_->send(done(kFirstXid + 3)));
  const auto answer = talk_->next_message();
  ASSERT_TRUE(answer);
  EXPECT_EQ(to_words(*answer).at(0), kFirstXid + 16);
}

TEST_F(HostileToProfile, MaySendNoReadChunksIfItTakesNoReads) {
  const Words answer = ask(configure(kFirstXid, words({4096, 4096, 0})));
  EXPECT_EQ(Words(answer.end() - 3, answer.end() - 1), (Words{4096, 1024}));
  const Message reads = words({1, 44, 0x4711, 100, 0, 0x1000, 0, 0, 0});
  EXPECT_EQ(ask(join({raw_header(kFirstXid, kMsg), reads, raw_call(kFirstXid, TestService::kEcho),
                      words({100})})),
            (Words{kFirstXid, 1, kCredits, 4, 2}));
}

TEST_F(HostileToProfile, LearnsHowManyReadsTheServerServesIfItServesFew) {
  auto peer = test::RawPeer::connect(server_->address(), [this] { server_->progress(); });
  test::RawMpa mpa = RawTalk::mpa(true);
  mpa.ird = 3;
  ASSERT_FALSE(peer->initiate(mpa).empty());
  talk_.emplace(std::move(peer), true);
  EXPECT_EQ(ask(configure(kFirstXid, words({4096, 4096, 3}))).back(), 16U);
}

TEST_F(HostileToProfile, SizesOfAnyKindAreTakenAsWhatIsPossible) {
  for (const std::uint32_t size : {0U, 1U, 0xffffffffU}) {
    EXPECT_EQ(ask(configure(kFirstXid, words({size, size, size}))).size(), 16U);
    const std::uint32_t fits = size == 0xffffffffU ? 60000 : 900;
    const Words answer = ask(call_of_procedure(kFirstXid, TestService::kProduce, words({fits})));
    EXPECT_EQ(answer.at(3), kMsg);
    EXPECT_EQ(answer.size(), 7 + 6 + 1 + fits / 4);
  }
}

TEST_F(HostileToProfile, ConfigurationsThatDoNotDecodeAreGarbage) {
  for (const Message& sizes : {words({}), words({1, 2}), words({1, 2, 3, 4})}) {
    EXPECT_EQ(ask(configure(kFirstXid, sizes)).back(), 4U) << "GARBAGE_ARGS";
  }
  const Words absent = ask(join(
      {raw_header(kFirstXid, kMsg), kNoLists, words({kFirstXid, 0, 2, 100417, 1, 2, 0, 0, 0, 0})}));
  EXPECT_EQ(absent.back(), 3U) << "PROC_UNAVAIL";
}

TEST_F(HostileToProfile, PaddingThatLeavesTheMessageIsGarbage) {
  const Message item = join({words({8}), words({1, 2})});
  struct Row {
    std::uint32_t alignment, threshold;
    std::uint32_t status;  // accept_stat
  };
  // The item's data begins at byte 36 + 44 of the Send.
  for (const Row& row : {Row{0, 0, 0},
                         {1, 0, 0},
                         {80, 0, 0},
                         {4, 0, 0},
                         {3, 0, 4},
                         {1024, 0, 4},
                         {0xffffffff, 0, 4},
                         {1024, 8, 0},
                         {1024, 0xffffffff, 0}}) {
    SCOPED_TRACE(row.alignment);
    const Words answer =
        ask(join({raw_header(kFirstXid, kPadded), words({row.alignment, row.threshold}), kNoLists,
                  raw_call(kFirstXid, TestService::kLength), item}));
    EXPECT_EQ(answer.at(12), row.status);
  }
}

// --- A client

class HostileProfileServer : public ::testing::Test {
 protected:
  explicit HostileProfileServer(const test::RawMpa& mpa = {.crc = true}) {
    provider_ = std::move(rdma::siwarp::make_provider({}).value());
    ClientOptions options;
    options.connection.profile = Profile::kRfc5666;
    options.connection.rfc5666.results_by_read = true;
    auto connecting = ConnectingClient::connect_on(*provider_, listener_.address(),
                                                   test::with_small_messages(options));
    EXPECT_TRUE(connecting);
    client_ = std::move(*connecting);
    auto peer = listener_.accept();
    EXPECT_FALSE(peer->respond(mpa).empty());
    talk_ = std::make_unique<RawTalk>(std::move(peer), true);
    const auto asked = talk_->next_message();
    EXPECT_TRUE(asked);
    configuration_ = to_words(*asked);
  }
  ~HostileProfileServer() override {
    talk_.reset();
    client_.reset();
  }
  void answer_configuration(const Message& results) {
    const std::uint32_t xid = configuration_.at(0);
    EXPECT_TRUE(talk_->send(join({raw_header(xid, kMsg), kNoLists, raw_reply(xid), results})));
  }
  bool connects() {
    return talk_->peer().pump_until([&] { return client_->connected() || client_->ended(); }) &&
           client_->connected();
  }

  std::unique_ptr<rdma::Provider> provider_;
  std::optional<Client> client_;
  test::RawListener listener_{[this] {
    if (client_) client_->progress();
  }};
  std::unique_ptr<RawTalk> talk_;
  Words configuration_;
};

TEST_F(HostileProfileServer, AsksFirstAndWaitsForTheAnswer) {
  ASSERT_GE(configuration_.size(), 20U);
  EXPECT_EQ(Words(configuration_.begin() + 10, configuration_.begin() + 13), (Words{100417, 1, 1}));
  EXPECT_EQ(Words(configuration_.end() - 3, configuration_.end() - 1), (Words{4096, 4096}));
  EXPECT_FALSE(client_->connected());
  answer_configuration(words({8192, 0, 16}));
  EXPECT_TRUE(connects());
}

// RFC 5666 §6: "may be active at the peer" is what it serves (IRD), not what it would like to do.
class FewReadsOfTheProfileServer : public HostileProfileServer {
 protected:
  FewReadsOfTheProfileServer() : HostileProfileServer({.crc = true, .ird = 3, .ord = 5}) {}
};

TEST_F(FewReadsOfTheProfileServer, LearnsHowManyTheClientServes) {
  EXPECT_EQ(configuration_.back(), 16U) << "it would have 3 of its own in progress";
}

TEST_F(HostileProfileServer, GetsNoReadChunksIfItTakesNoReads) {
  answer_configuration(words({4096, 0, 0}));
  ASSERT_TRUE(connects());
  const std::vector<std::byte> data(100'000), small(2000);
  const auto call_with = [&](Bytes bulk) -> Expected<void, Error> {
    auto made = client_->prepare({77, 1, 1});
    EXPECT_TRUE(made);
    made->arguments().bulk(bulk);
    return client_->start(std::move(*made), [](auto) {});
  };
  const auto refused = call_with(data);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kTooLarge);
  EXPECT_NE(refused.error().cause.find("takes no Read chunks"), std::string::npos)
      << refused.error().message();
  ASSERT_TRUE(call_with(small)) << "what fits a message goes inline";
  const auto asked = talk_->next_message();
  ASSERT_TRUE(asked);
  EXPECT_EQ(to_words(*asked).at(4), 0U) << "the Read list";
  EXPECT_GT(asked->size(), small.size());
}

TEST_F(HostileProfileServer, IsAskedForTwoReadsAtATimeIfItServesTwo) {
  answer_configuration(words({4096, 0, 2}));  // its set-up has said 16
  ASSERT_TRUE(connects());
  auto call = client_->prepare({77, 1, 1});
  ASSERT_TRUE(call);
  std::vector<std::byte> place(120);
  call->place_result(place);
  bool ended = false;
  ASSERT_TRUE(client_->start(std::move(*call), [&](auto reply) { ended = reply.has_value(); }));
  const auto asked = talk_->next_message();
  ASSERT_TRUE(asked);
  const std::uint32_t xid = to_words(*asked).at(0);
  constexpr std::uint32_t kPosition = 24 + 4;
  Message reads;
  for (const std::uint32_t tag : {1U, 2U, 3U}) {
    reads = join({reads, words({1, kPosition, tag, 40, 0, 0})});
  }
  ASSERT_TRUE(
      talk_->send(join({raw_header(xid, kMsg), reads, kNoLists, raw_reply(xid), words({120})})));
  std::vector<iwarp::ReadRequest> requests;
  const auto take_request = [&] {
    const auto read = talk_->next();
    ASSERT_TRUE(read) << "it asks for no more";
    requests.push_back(iwarp::decode_read_request(read->payload));
    EXPECT_EQ(requests.back().source_tag, SteeringTag{static_cast<std::uint32_t>(requests.size())});
  };
  const auto answer = [&](const iwarp::ReadRequest& request) {
    ASSERT_TRUE(talk_->read_response(static_cast<std::uint32_t>(request.sink_tag),
                                     request.sink_address, test::pattern(40, 1)));
  };
  ASSERT_NO_FATAL_FAILURE(take_request());
  ASSERT_NO_FATAL_FAILURE(take_request());
  client_->progress();
  EXPECT_EQ(talk_->peer().waiting(), 0U) << "two at a time";
  answer(requests[0]);
  ASSERT_NO_FATAL_FAILURE(take_request());
  answer(requests[1]);
  answer(requests[2]);
  EXPECT_TRUE(talk_->peer().pump_until([&] { return ended; }));
}

TEST_F(HostileProfileServer, TakesAnySizesAsWhatIsPossible) {
  answer_configuration(words({0xffffffff, 0xffffffff, 0xffffffff}));
  EXPECT_TRUE(connects());
}

TEST_F(HostileProfileServer, DoesNotWorkWithAnAnswerThatMakesNoSense) {
  answer_configuration(words({4096, 0}));
  EXPECT_FALSE(connects());
}

// The first result is in the message, the second at a Read chunk: each is the result of its
// position.
TEST_F(HostileProfileServer, ResultsThatComeByDifferentWaysAreNotMistakenForEachOther) {
  answer_configuration(words({4096, 0, 16}));
  ASSERT_TRUE(connects());
  auto call = client_->prepare({77, 1, 1});
  ASSERT_TRUE(call);
  std::vector<std::byte> first(9000), second(9000);
  call->place_result(first);
  call->place_result(second);
  bool ended = false;
  const auto in_chunk = test::pattern(40, 1);
  ASSERT_TRUE(client_->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    ended = true;
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes one = read(*reply)->bulk(9000, "first");
    EXPECT_EQ(to_words(one), (Words{1, 2, 3}));
    const Bytes two = read(*reply)->bulk(9000, "second");
    EXPECT_TRUE(std::ranges::equal(two, in_chunk));
    EXPECT_EQ(one.data(), first.data());
    EXPECT_EQ(two.data(), second.data());
    EXPECT_FALSE(reply->finish());
  }));
  const auto asked = talk_->next_message();
  ASSERT_TRUE(asked);
  const std::uint32_t xid = to_words(*asked).at(0);
  constexpr std::uint32_t kPosition = 24 + 4 + 12 + 4;
  ASSERT_TRUE(talk_->send(join({raw_header(xid, kMsg), words({1, kPosition, 0x4711, 40, 0, 0}),
                                kNoLists, raw_reply(xid), words({12, 1, 2, 3, 40})})));
  const auto read = talk_->next();
  ASSERT_TRUE(read);
  const auto request = iwarp::decode_read_request(read->payload);
  EXPECT_EQ(request.source_tag, SteeringTag{0x4711});
  ASSERT_TRUE(talk_->read_response(static_cast<std::uint32_t>(request.sink_tag),
                                   request.sink_address, in_chunk));
  EXPECT_TRUE(talk_->peer().pump_until([&] { return ended; }));
}

TEST_F(HostileProfileServer, ConfirmsARepliesReadListThatItCannotUse) {
  answer_configuration(words({4096, 0, 16}));
  ASSERT_TRUE(connects());
  auto call = client_->prepare({77, 1, 1});
  ASSERT_TRUE(call);
  call->expect_results(9000);
  std::optional<Error> error;
  ASSERT_TRUE(client_->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    if (!reply) error = reply.error();
  }));
  const auto asked = talk_->next_message();
  ASSERT_TRUE(asked);
  const std::uint32_t xid = to_words(*asked).at(0);
  // More than the reply may be.
  EXPECT_TRUE(talk_->send(
      join({raw_header(xid, kNoMsg), words({1, 0, 0x4711, 0xfffff000, 0, 0, 0, 0, 0})})));
  const auto confirmed = talk_->next_message();
  ASSERT_TRUE(confirmed);
  const Words words = to_words(*confirmed);
  EXPECT_EQ(words.size(), 4U);
  EXPECT_EQ(words.at(0), xid);
  EXPECT_EQ(words.at(3), kDone);
  EXPECT_TRUE(talk_->peer().pump_until([&] { return error.has_value(); }));
  EXPECT_EQ(error->code, Errc::kBadReply);
}

}  // namespace
}  // namespace rpcrdma::test
