// Profile::kRfc5666, end to end: results by RDMA Read and RDMA_DONE, RDMA_MSGP, and the Connection
// Configuration Protocol.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/function_service.h"
#include "support/checked_reply.h"
#include "support/fabric.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

ConnectionOptions profile() {
  ConnectionOptions options;
  options.profile = Profile::kRfc5666;
  return options;
}
ClientOptions reading_client() {
  ClientOptions options;
  options.connection = profile();
  options.connection.rfc5666.results_by_read = true;
  return options;
}
ClientOptions writing_client() {
  ClientOptions options;
  options.connection = profile();
  return options;
}
ServerOptions server_options() {
  ServerOptions options;
  options.connection = profile();
  return options;
}

class Rfc5666 : public ::testing::TestWithParam<Fabric> {
 protected:
  static RpcPair make(const ClientOptions& client = reading_client(),
                      const ServerOptions& server = server_options()) {
    return RpcPair(GetParam().make(), client, server);
  }
  static std::optional<Error> echo(RpcPair& pair, std::size_t size) {
    const auto sent = pattern(size, static_cast<std::uint32_t>(size) + 7);
    std::vector<std::byte> place(size + 5, std::byte{0xee}), got;
    auto call = pair.prepare(TestService::kEcho);
    if (!call) return call.error();
    call->arguments().bulk(sent);
    if (size > 0) call->place_result(MutableBytes(place).first(size));
    call->expect_results(size > 0 ? 4 : 8);
    auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      const Bytes data = reply.results().bulk(TestService::kBulkMax, "data");
      EXPECT_TRUE(!reply.results().last_was_placed() || data.data() == place.data());
      got.assign(data.begin(), data.end());
    });
    if (!error) {
      EXPECT_EQ(got, sent);
    }
    EXPECT_EQ(place[size], std::byte{0xee}) << "written beyond the place";
    return error;
  }
  // Two results, with a string between them.
  static void expect_swap(RpcPair& pair, const std::vector<std::byte>& first,
                          const std::vector<std::byte>& second, std::uint32_t results_max,
                          std::vector<MutableBytes> places) {
    auto call = pair.prepare(TestService::kSwap);
    ASSERT_TRUE(call);
    call->arguments().xdr().u32(1);
    call->arguments().bulk(first);
    call->arguments().xdr().string("between");
    call->arguments().bulk(second);
    for (const MutableBytes place : places) call->place_result(place);
    call->expect_results(results_max);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      const Bytes one = reply.results().bulk(TestService::kBulkMax, "second");
      EXPECT_EQ(reply.results().xdr().string(255, "text"), "between");
      const Bytes two = reply.results().bulk(TestService::kBulkMax, "first");
      EXPECT_TRUE(reply.results().finish());
      EXPECT_EQ(std::vector(one.begin(), one.end()), second);
      EXPECT_EQ(std::vector(two.begin(), two.end()), first);
    });
    EXPECT_FALSE(error) << error->message();
  }
  // Procedures 1 and 2 both have 9000 bytes that fit no message; the first may not expose them.
  static void expect_only_the_second_to_be_read(Service& service) {
    RpcPair pair = make();
    ASSERT_TRUE(pair.server->add(77, 1, service));
    std::vector<std::byte> place(9000);
    for (const std::uint32_t procedure : {1U, 2U}) {
      auto call = pair.client->prepare({77, 1, procedure}, 0);
      ASSERT_TRUE(call);
      call->place_result(place);
      const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
        EXPECT_EQ(reply.results().bulk(9000, "data").size(), 9000U);
      });
      ASSERT_EQ(error.has_value(), procedure == 1) << (error ? error->message() : "");
      if (error) {
        EXPECT_EQ(error->code, Errc::kChunk);
      }
    }
    EXPECT_EQ(pair.client->counters().read_replies, 1U);
  }
  static void expect_echo(RpcPair& pair, std::size_t size) {
    SCOPED_TRACE(size);
    const auto error = echo(pair, size);
    EXPECT_FALSE(error) << error->message();
  }
};

TEST_P(Rfc5666, ResultsOfEverySizeAreReadByTheClient) {
  RpcPair pair = make();
  for (const std::size_t size :
       {0U, 1U, 500U, 4095U, 4096U, 4097U, 8191U, 65519U, 65521U, 131073U, 1048575U, 1048576U}) {
    expect_echo(pair, size);
  }
  const TransferCounters counters = pair.client->counters();
  EXPECT_EQ(counters.write_chunks, 0U);
  EXPECT_EQ(counters.reply_chunks, 0U);
  EXPECT_EQ(counters.read_replies, 9U);
  EXPECT_TRUE(pair.run_until([&] { return pair.server->memory_in_use() == 0; }))
      << "RDMA_DONE frees what was exposed";
  EXPECT_EQ(pair.server->counters().read_replies, 9U);
}

TEST_P(Rfc5666, WriteChunksAreUsedWhereTheClientOffersThem) {
  RpcPair pair = make(writing_client());
  for (const std::size_t size : {500U, 4096U, 65521U, 1048576U}) expect_echo(pair, size);
  EXPECT_EQ(pair.client->counters().read_replies, 0U);
  EXPECT_EQ(pair.client->counters().write_chunks, 3U);
}

TEST_P(Rfc5666, RepliesWithoutItemsAreReadAsAWhole) {
  RpcPair pair = make();
  for (const std::uint32_t size : {100U, 3900U, 4100U, 65001U}) {
    auto call = pair.prepare(TestService::kProduce);
    ASSERT_TRUE(call);
    call->arguments().xdr().u32(size);
    call->expect_results(size + 8);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      const Bytes data = reply.results().xdr().opaque(size, "data");
      EXPECT_EQ(data.size(), size);
    });
    EXPECT_FALSE(error) << error->message();
  }
  EXPECT_EQ(pair.client->counters().long_replies, 2U);
  EXPECT_EQ(pair.client->counters().reply_chunks, 0U);
}

TEST_P(Rfc5666, SeveralResultsAreReadIntoTheirPlaces) {
  RpcPair pair = make();
  for (const auto& [a, b] : {std::pair{5001U, 70003U}, {5001U, 0U}, {0U, 5001U}, {3U, 60000U}}) {
    std::vector<std::byte> place_1(b + 1), place_2(a + 1);
    expect_swap(pair, pattern(a, 1), pattern(b, 2), 300, {place_1, place_2});
  }
  EXPECT_EQ(pair.client->counters().read_replies, 4U);
}

TEST_P(Rfc5666, ResultsWithoutAPlaceAreFoundInTheReply) {
  RpcPair pair = make();
  expect_swap(pair, pattern(9001, 1), pattern(5003, 2), 15000, {});
  EXPECT_EQ(pair.client->counters().read_replies, 1U);
}

TEST_P(Rfc5666, MoreCallsThanCreditsAndExposedRepliesAllEnd) {
  ServerOptions options = server_options();
  options.connection.credits = 3;
  options.connection.rfc5666.exposed_replies_max = 2;
  RpcPair pair = make(reading_client(), options);
  constexpr std::size_t kCalls = 40, kSize = 9000;
  std::vector<std::vector<std::byte>> places(kCalls, std::vector<std::byte>(kSize));
  const auto sent = pattern(kSize, 5);
  std::size_t ended = 0;
  for (auto& place : places) {
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(sent);
    call->place_result(place);
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      (void)read(*reply)->bulk(kSize, "data");
      ++ended;
    }));
  }
  ASSERT_TRUE(pair.run_until([&] { return ended == kCalls; }));
  for (const auto& place : places) EXPECT_EQ(place, sent);
}

TEST_P(Rfc5666, BindingThatForbidsExposedRepliesFailsTheCallAlone) {
  class Forbidding final : public Service {
   public:
    const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
      static constexpr ProcedureTraits kForbidden{};
      static constexpr ProcedureTraits kPermitted{.may_answer_by_read = true};
      return procedure == 1 ? &kForbidden : &kPermitted;
    }
    void call(CallContext& context) override {
      context.results().bulk(data_);
      context.succeed();
    }

   private:
    const std::vector<std::byte> data_ = pattern(9000, 1);
  } service;
  expect_only_the_second_to_be_read(service);
}

// RFC 5666 §5.2: only where the upper layer permits it.
TEST_P(Rfc5666, ServicesThatDoNotPermitExposedRepliesDoNotSendThem) {
  FunctionService service;
  const auto data = pattern(9000, 1);
  const auto answer = [&data](CallContext& call) {
    call.results().bulk(data);
    return AcceptStatus::kSuccess;
  };
  service.on(1, answer);
  service.on(2, answer, {.may_answer_by_read = true});
  expect_only_the_second_to_be_read(service);
}

// --- RDMA_MSGP

TEST_P(Rfc5666, PaddedDataIsUsedAlignedWhereItWasReceived) {
  struct Seen {
    std::uintptr_t address = 0;
    bool placed = true;
    std::vector<std::byte> data;
  } seen;
  FunctionService service;
  service.on(1,
             [&](CallContext& context) {
               const std::string name(context.arguments().xdr().string(255, "name"));
               const Bytes data = context.arguments().bulk(TestService::kBulkMax, "data");
               if (!context.arguments().finish()) return AcceptStatus::kGarbageArgs;
               seen = {reinterpret_cast<std::uintptr_t>(data.data()),
                       context.arguments().last_was_placed(),
                       {data.begin(), data.end()}};
               return AcceptStatus::kSuccess;
             },
             {.bulk_argument_size_max = TestService::kBulkMax});
  for (const PaddingBase base : {PaddingBase::kBuffer, PaddingBase::kStream}) {
    ClientOptions client = reading_client();
    ServerOptions server = server_options();
    client.connection.rfc5666.padding_base = server.connection.rfc5666.padding_base = base;
    client.connection.inline_size = server.connection.inline_size = 16384;
    server.connection.rfc5666.alignment = 4096;
    RpcPair pair = make(client, server);
    ASSERT_TRUE(pair.server->add(77, 1, service));
    std::uint64_t padded = 0;
    for (const std::uint32_t size : {0U, 511U, 512U, 513U, 4096U, 8191U, 12000U}) {
      SCOPED_TRACE(size);
      const auto sent = pattern(size, size);
      auto call = pair.client->prepare({77, 1, 1}, 64);
      ASSERT_TRUE(call);
      call->arguments().xdr().string("file");
      call->arguments().bulk(sent);
      const auto error = pair.finish(std::move(*call), [](Reply&) {});
      ASSERT_FALSE(error) << error->message();
      EXPECT_EQ(seen.data, sent);
      EXPECT_FALSE(seen.placed) << "a view of the Receive buffer";
      if (size <= 512) continue;
      ++padded;
      if (base == PaddingBase::kBuffer) {
        EXPECT_EQ(seen.address % 4096, 0U);
      }
    }
    EXPECT_EQ(pair.client->counters().padded_calls, padded);
    EXPECT_EQ(pair.server->counters().padded_calls, padded);
    EXPECT_EQ(pair.client->counters().read_chunks, 0U);
  }
}

// --- The Connection Configuration Protocol

TEST_P(Rfc5666, SizesOfBothSidesCountOnceTheyAreAgreedOn) {
  ClientOptions client = writing_client();
  client.connection.inline_size = 8000;
  client.connection.reduce_size_min = 1U << 20U;  // stays inline where it fits
  ServerOptions server = server_options();
  server.connection.rfc5666.alignment = 0;
  for (const std::uint32_t server_size : {1024U, 4096U, 65536U}) {
    server.connection.inline_size = server_size;
    RpcPair pair = make(client, server);
    const std::size_t fits = std::min(server_size, 8000U) - 28 - 40 - 4;
    for (const std::size_t size : {fits, fits + 1}) {
      auto call = pair.prepare(TestService::kLength);
      ASSERT_TRUE(call);
      const auto sent = pattern(size, 1);
      call->arguments().bulk(sent);
      const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
        EXPECT_EQ(reply.results().xdr().u32("size"), size);
      });
      EXPECT_FALSE(error) << error->message();
      EXPECT_EQ(pair.client->counters().read_chunks, size > fits ? 1U : 0U);
    }
  }
}

TEST_P(Rfc5666, ServerWithoutTheProtocolIsServedWithTheSmallestMessages) {
  ServerOptions server;  // of RFC 8166
  RpcPair pair = make(writing_client(), server);
  for (const std::size_t size : {0U, 500U, 5000U, 70001U}) expect_echo(pair, size);
  EXPECT_EQ(pair.client->counters().padded_calls, 0U);
}

TEST_P(Rfc5666, ConfigurationIsDeniedWithoutTheRequiredFlavor) {
  ServerOptions server = server_options();
  server.connection.rfc5666.flavor_required = AuthFlavor::kRpcsecGss;
  RpcPair pair = make(reading_client(), server);
  EXPECT_EQ(pair.client->counters().padded_calls, 0U);
  expect_echo(pair, 700);
  EXPECT_EQ(pair.client->counters().padded_calls, 0U) << "nothing was agreed on";
  expect_echo(pair, 70000);
}

TEST_P(Rfc5666, CredentialOfTheClientIsThatOfItsConfigurationToo) {
  ServerOptions server = server_options();
  server.connection.rfc5666.flavor_required = AuthFlavor::kSys;
  ClientOptions client = reading_client();
  {
    const std::string name = "a name that is gone when the client connects";
    AuthSys credential;
    credential.machine_name = name;
    credential.uid = 1000;
    client.auth = credential;
    RpcPair pair = make(client, server);
    expect_echo(pair, 700);
    EXPECT_EQ(pair.client->counters().padded_calls, 1U) << "the first connection is configured";
    auto call = pair.prepare(TestService::kWhoAmI);
    ASSERT_TRUE(call);
    EXPECT_FALSE(pair.finish(std::move(*call), [](Reply& reply) {
      EXPECT_EQ(reply.results().xdr().u32("uid"), 1000U);
    }));
  }
}

TEST_P(Rfc5666, ProgramsDenyCredentialsThatAreTooWeak) {
  class Strict final : public Service {
   public:
    const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
      static constexpr ProcedureTraits kAny{.bulk_argument_size_max = TestService::kBulkMax};
      return &kAny;
    }
    AuthStatus check_credential(std::uint32_t procedure,
                                const Credential& credential) const noexcept override {
      return procedure == 2 && credential.flavor == AuthFlavor::kNone ? AuthStatus::kTooWeak
                                                                      : AuthStatus::kOk;
    }
    void call(CallContext& context) override { context.succeed(); }
  } service;
  RpcPair pair = make();
  ASSERT_TRUE(pair.server->add(77, 1, service));
  const auto data = pattern(100000, 1);
  for (const std::uint32_t procedure : {0U, 1U, 2U}) {
    auto call = pair.client->prepare({77, 1, procedure}, 0);
    ASSERT_TRUE(call);
    if (procedure > 0) call->arguments().bulk(data);
    const auto error = pair.finish(std::move(*call), [](Reply&) {});
    ASSERT_EQ(error.has_value(), procedure == 2);
    if (error) {
      EXPECT_EQ(error->code, Errc::kDenied);
    }
  }
  EXPECT_EQ(pair.server->counters().read_chunk_bytes, 100000U)
      << "nothing moved for the denied one";
}

TEST_P(Rfc5666, EveryConnectionIsConfiguredAlsoWhenAllCallsWait) {
  ClientOptions client = reading_client();
  client.calls_max = 4;
  client.reconnect.enabled = true;
  client.reconnect.delay_max = std::chrono::milliseconds(20);
  RpcPair pair = make(client);
  expect_echo(pair, 700);
  EXPECT_EQ(pair.client->counters().padded_calls, 1U);
  pair.kill_server();
  constexpr std::size_t kSize = 9000;
  const auto sent = pattern(kSize, 5);
  std::vector<std::vector<std::byte>> places(4, std::vector<std::byte>(kSize));
  std::size_t ended = 0;
  for (auto& place : places) {
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().bulk(sent);
    call->place_result(place);
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      (void)read(*reply)->bulk(kSize, "data");
      ++ended;
    }));
  }
  pair.start_server();
  ASSERT_TRUE(pair.run_until([&] { return ended == 4; }));
  for (const auto& place : places) EXPECT_EQ(place, sent);
  expect_echo(pair, 700);
  EXPECT_EQ(pair.client->counters().padded_calls, 2U) << "the new connection has its alignment";
}

TEST_P(Rfc5666, ClientsOfRfc8166AreServedAsWell) {
  // Nothing on the wire tells the profile; what is common to both works.
  RpcPair pair = make(ClientOptions{});
  for (const std::size_t size : {0U, 500U, 900U}) expect_echo(pair, size);
}

// A server that says nothing sensible when it is asked for its sizes, on a thread of its own.
class NonsenseServer {
 public:
  NonsenseServer() : server_(std::move(Server::listen("rdma://127.0.0.1:0").value())) {
    configuration_.on(1, [](CallContext&) { return AcceptStatus::kSuccess; });
    EXPECT_TRUE(server_.add(100417, 1, configuration_));
    url_ = "rdma://" + std::string(server_.address());
    thread_ = std::thread([this] { server_.run(); });
  }
  ~NonsenseServer() {
    server_.stop();
    thread_.join();
  }
  const std::string& url() const { return url_; }

 private:
  FunctionService configuration_;
  Server server_;
  std::string url_;
  std::thread thread_;
};

TEST(Rfc5666Connect, FailsWhenTheServerCannotBeConfigured) {
  const NonsenseServer server;
  for (const bool reconnects : {false, true}) {
    SCOPED_TRACE(reconnects);
    ClientOptions options = reading_client();
    options.reconnect.enabled = reconnects;
    EXPECT_FALSE(Client::connect(server.url(), options));
  }
}

// The server has heard nothing of the client since the Call came.
TEST(Rfc5666Held, ReplyHasAllOfThePeersTimeHoweverLongTheServiceTook) {
  constexpr std::chrono::seconds kPeerTimeout{1};
  ServerOptions server = server_options();
  server.peer_timeout = kPeerTimeout;
  RpcPair pair(make_sim(1), reading_client(), server);
  constexpr std::uint32_t kSize = 9000;
  const auto data = pattern(kSize, 1);
  std::vector<std::byte> place(kSize);
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  call->place_result(place);
  std::optional<bool> is_whole;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    EXPECT_TRUE(reply) << reply.error().message();
    is_whole = reply && are_equal(reply->results().bulk(kSize, "data"), data) && !reply->finish();
  }));
  ASSERT_TRUE(pair.run_until([&] { return pair.service.held.size() == 1; }));
  {
    Client other = RpcPair::connect_another(pair);
    bool is_later = false;
    auto clock = other.prepare({TestService::kProgram, TestService::kVersion, TestService::kHold});
    ASSERT_TRUE(clock);
    clock->time_out_after(kPeerTimeout + std::chrono::milliseconds(50));
    ASSERT_TRUE(other.start(std::move(*clock), [&](Expected<Reply, Error>) { is_later = true; }));
    ASSERT_TRUE(pair.run_until([&] {
      other.progress();
      return is_later;
    }));
  }
  pair.service.held[0]->results().bulk(data);
  std::exchange(pair.service.held[0], pair.service.held.back())->succeed();
  pair.service.held.pop_back();
  EXPECT_TRUE(pair.run_until([&] { return is_whole.has_value(); }));
  EXPECT_EQ(is_whole, true);
  EXPECT_EQ(pair.server->counters().read_replies, 1U);
}

TEST(Rfc5666Held, ReplyHasAllOfThePeersTimeHoweverLongTheServiceTookInItsTurn) {
  constexpr std::chrono::milliseconds kPeerTimeout{1000};
  constexpr std::uint32_t kSize = 9000;
  ServerOptions server = server_options();
  server.peer_timeout = kPeerTimeout;
  RpcPair pair(make_sim(1), reading_client(), server);
  const auto data = pattern(kSize, 1);
  const auto answer = [&](CallContext& context) {
    rdma::Provider& clock = pair.network->client_side();
    const Instant until = clock.now() + kPeerTimeout + std::chrono::milliseconds(50);
    for (clock.arm_timer(until); clock.now() < until; clock.progress()) pair.network->wait();
    context.results().bulk(data);
    return AcceptStatus::kSuccess;
  };
  FunctionService slow;
  slow.on(1, answer, {.may_answer_by_read = true});
  ASSERT_TRUE(pair.server->add(77, 1, slow));
  std::vector<std::byte> place(kSize);
  auto call = pair.client->prepare({77, 1, 1});
  ASSERT_TRUE(call);
  call->place_result(place);
  const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
    EXPECT_TRUE(are_equal(reply.results().bulk(kSize, "data"), data));
  });
  EXPECT_FALSE(error) << error->message();
  EXPECT_EQ(pair.server->counters().read_replies, 1U);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Rfc5666,
                         ::testing::Values(Fabric{"Sim", [] { return test::make_sim(11); }},
                                           Fabric{"Siwarp",
                                                  [] { return test::make_siwarp(true, false); }}),
                         name_of_fabric);

}  // namespace
}  // namespace rpcrdma::test
