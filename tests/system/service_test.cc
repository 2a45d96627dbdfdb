// Tests what makes a small program small: services of functions, default options, one port for a
// server on each thread. Through the public headers, over siwarp.
#include "rpcrdma/service.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "rpcrdma/testing.h"
#include "support/checked_reply.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kBareProgram = 0x20010003;
constexpr const char* kAnyPort = "rdma://127.0.0.1:0";

std::string url_of(const Server& server) {
  return "rdma://" + std::string(server.address());
}

// A server that runs on a thread of its own until it goes.
class Running {
 public:
  Running(const std::string& url, FunctionService& service, const ServerOptions& options = {})
      : server_(Server::listen(url, options).value()) {
    EXPECT_TRUE(server_.add(kBareProgram, 1, service));
    thread_ = std::thread([this] { server_.run(); });
  }
  ~Running() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return url_of(server_); }

 private:
  Server server_;
  std::thread thread_;
};

Expected<Reply, Error> call_service(Client& client, std::uint32_t procedure,
                                    const std::string& text = {}) {
  auto call = client.prepare({kBareProgram, 1, procedure});
  if (!call) return Unexpected<Error>(call.error());
  call->arguments().xdr().string(text);
  return client.call(std::move(*call));
}

enum Number : std::uint32_t { kGreet = 1, kThrow = 2, kSize = 3, kUnknown = 4 };

void fill(FunctionService& service) {
  service
      .on(kGreet,
          [](CallContext& context) {
            const std::string name(context.arguments().xdr().string(10, "name"));
            if (!context.arguments().finish()) return AcceptStatus::kGarbageArgs;
            context.results().xdr().string("hello " + name);
            return AcceptStatus::kSuccess;
          })
      .on(kThrow,
          [](CallContext&) -> AcceptStatus { throw std::runtime_error("the service is ill"); })
      .on(kSize,
          [](CallContext& context) {
            const Bytes data = context.arguments().bulk(5000, "data");
            if (!context.arguments().finish()) return context.fail(AcceptStatus::kGarbageArgs);
            context.results().xdr().u32(static_cast<std::uint32_t>(data.size()));
            context.succeed();
          },
          {.bulk_argument_size_max = 5000});
}

TEST(ServiceTest, TakesNoMoreDataThanTheServerDoes) {
  class Large final : public Service {
   public:
    const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
      return find_traits(table, procedure);
    }
    std::span<const ProcedureTraits> all_traits() const noexcept override { return table; }
    void call(CallContext& context) override { context.fail(AcceptStatus::kProcUnavail); }
    std::array<ProcedureTraits, 2> table{
        {{.number = 1, .name = "SMALL", .bulk_argument_size_max = 1U << 20U},
         {.number = 2, .name = "LARGE", .bulk_argument_size_max = 4U << 20U}}};
  } service;
  const auto added = [&service](std::uint32_t size_max) {
    ServerOptions options;
    options.bulk_size_max = size_max;
    testing::Network network(1);
    Server server = network.listen("large", options).value();
    return server.add(1, 2, service);
  };
  const auto refused = added(1U << 20U);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kTooLarge);
  EXPECT_NE(refused.error().message().find(
                "procedure 2 (LARGE) of program 1 version 2 takes data of up to 4194304 bytes, and "
                "ServerOptions::bulk_size_max is 1048576: raise it to that"),
            std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(added(4U << 20U));
  service.table[1].bulk_argument_size_max = 0xffffffff;
  EXPECT_TRUE(added(1U << 20U)) << "without a bound of its own it has the server's";
}

TEST(FunctionService, AnswersWithTheFunctionOfTheProcedure) {
  FunctionService service;
  fill(service);
  const Running running(kAnyPort, service);
  auto client = Client::connect(running.url());
  ASSERT_TRUE(client) << client.error().message();
  auto reply = call_service(*client, kGreet, "world");
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_EQ(read(*reply)->xdr().string(255, "greeting"), "hello world");
  EXPECT_FALSE(reply->finish());
}

TEST(FunctionService, AnswersWithTheStatusThatAFunctionReturns) {
  FunctionService service;
  fill(service);
  const Running running(kAnyPort, service);
  auto client = Client::connect(running.url()).value();
  EXPECT_EQ(call_service(client, kGreet, "longer than ten").error().code, Errc::kBadArguments);
  EXPECT_EQ(call_service(client, kThrow).error().code, Errc::kServerFault);
  EXPECT_EQ(call_service(client, kUnknown).error().code, Errc::kNotAvailable);
  EXPECT_TRUE(call_service(client, 0)) << "NULL needs no function";
}

TEST(FunctionService, TakesOneBulkArgumentUnlessTheProcedureSaysMore) {
  FunctionService service;
  const auto answer = [](CallContext& /*context*/) { return AcceptStatus::kSuccess; };
  service.on(1, answer, {.bulk_argument_size_max = 4096});
  service.on(2, answer, {.bulk_argument_size_max = 4096, .bulk_arguments_max = 3});
  EXPECT_EQ(service.traits(1)->bulk_arguments_max, 1U);
  EXPECT_EQ(service.traits(2)->bulk_arguments_max, 3U);
}

TEST(FunctionService, TakesBulkArgumentsUpToTheSizeOfTheProcedure) {
  FunctionService service;
  fill(service);
  const Running running(kAnyPort, service);
  auto client = Client::connect(running.url()).value();
  const std::vector<std::byte> data(5004);
  for (const std::size_t size : {5000U, 5004U}) {
    auto call = client.prepare({kBareProgram, 1, kSize});
    call->arguments().bulk(Bytes(data).first(size));
    auto reply = client.call(std::move(*call));
    if (size == 5000) {
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(read(*reply)->xdr().u32("size"), 5000U);
    } else {
      EXPECT_EQ(reply.error().code, Errc::kBadArguments);
    }
  }
}

TEST(Client, ConnectsWhileItsThreadDoesOtherThings) {
  FunctionService service;
  fill(service);
  auto server = Server::listen(kAnyPort).value();
  ASSERT_TRUE(server.add(kBareProgram, 1, service));
  auto client = Client::begin_connect(url_of(server)).value();
  EXPECT_FALSE(client.connected());
  EXPECT_FALSE(client.ended());
  EXPECT_FALSE(client.prepare({kBareProgram, 1, kGreet})) << "not yet";
  while (!client.connected() && !client.ended()) {
    server.progress();
    client.progress();
  }
  EXPECT_TRUE(client.connected());
  EXPECT_FALSE(client.ended());
  client.close();
  while (!client.ended()) client.progress();
  EXPECT_FALSE(client.connected());
}

TEST(Client, SaysThatItsConnectionWasRefused) {
  std::string url;
  { url = url_of(Server::listen(kAnyPort).value()); }
  auto client = Client::begin_connect(url);
  if (client) {
    while (!client->connected() && !client->ended()) client->progress();
    EXPECT_TRUE(client->ended());
    const auto call = client->prepare({kBareProgram, 1, kGreet});
    ASSERT_FALSE(call);
    EXPECT_NE(call.error().message().find("refused"), std::string::npos) << call.error().message();
  } else {
    EXPECT_EQ(client.error().code, Errc::kRefused);
  }
}

// Throws on its own account: a function that returns a status is answered for by FunctionService.
class IllService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    return find_traits(kTable, procedure);
  }
  void call(CallContext& context) override {
    context.results().xdr().u32(7);
    if (context.procedure().number == kGreet) context.succeed();
    throw std::runtime_error("the service is ill");
  }

 private:
  static constexpr std::array<ProcedureTraits, 2> kTable{{{.number = kGreet}, {.number = kThrow}}};
};

class ServiceThatThrows : public ::testing::TestWithParam<const char*> {
 protected:
  ServiceThatThrows() {
    EXPECT_TRUE(server_.add(kBareProgram, 1, service_));
    thread_ = std::thread([this] { server_.run(); });
  }
  ~ServiceThatThrows() override {
    server_.stop();
    thread_.join();
  }
  Client connect() const {
    const std::string url = GetParam();
    return Client::connect(url.substr(0, url.find("//") + 2) + std::string(server_.address()))
        .value();
  }

 private:
  IllService service_;
  Server server_ = Server::listen(GetParam()).value();
  std::thread thread_;
};
INSTANTIATE_TEST_SUITE_P(Transports, ServiceThatThrows,
                         ::testing::Values(kAnyPort, "tcp://127.0.0.1:0"));

TEST_P(ServiceThatThrows, FailsItsCallAndNoOther) {
  Client client = connect();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(call_service(client, kThrow).error().code, Errc::kServerFault);
  }
  Client other = connect();
  EXPECT_TRUE(call_service(other, 0)) << "the server serves others";
}

TEST_P(ServiceThatThrows, ChangesNothingWhenItHasAnswered) {
  Client client = connect();
  for (int i = 0; i < 2; ++i) {
    auto reply = call_service(client, kGreet);
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_EQ(read(*reply)->xdr().u32("number"), 7U);
  }
}

TEST(SharedPort, IsServedByEveryServerThatSharesIt) {
  ServerOptions options;
  options.share_port = true;
  std::atomic<int> calls[2] = {};
  FunctionService services[2];
  for (int i = 0; i < 2; ++i) {
    services[i].on(kGreet, [&counter = calls[i]](CallContext&) {
      ++counter;
      return AcceptStatus::kSuccess;
    });
  }
  const Running first(kAnyPort, services[0], options);
  const Running second(first.url(), services[1], options);
  EXPECT_EQ(first.url(), second.url());
  // The system picks by a hash of the client's port: that 64 of them agree is not to be expected.
  for (int i = 0; i < 64; ++i) {
    auto client = Client::connect(first.url());
    ASSERT_TRUE(client) << client.error().message();
    auto reply = call_service(*client, kGreet);
    ASSERT_TRUE(reply) << reply.error().message();
  }
  EXPECT_EQ(calls[0] + calls[1], 64);
  EXPECT_GT(calls[0], 0);
  EXPECT_GT(calls[1], 0);
}

TEST(SharedPort, IsNotTakenFromAServerThatDoesNotShareIt) {
  ServerOptions shared;
  shared.share_port = true;
  auto alone = Server::listen(kAnyPort).value();
  const auto taken = Server::listen(url_of(alone), shared);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message().find("choose another port"), std::string::npos)
      << taken.error().message();
  auto first = Server::listen(kAnyPort, shared).value();
  EXPECT_FALSE(Server::listen(url_of(first)));
  EXPECT_TRUE(Server::listen(url_of(first), shared));
}

}  // namespace
}  // namespace rpcrdma::test
