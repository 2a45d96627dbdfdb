// Tests the guarantees for users who test a service on the simulated network.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/function_service.h"
#include "rpcrdma/testing.h"
#include "support/checked_reply.h"

namespace rpcrdma::testing {
namespace {

constexpr std::uint32_t kProgram = 0x20010030, kVersion = 1;
enum Procedure : std::uint32_t { kDouble = 1, kNever = 2, kCopy = 3 };
constexpr std::uint32_t kCopyMax = 1U << 20U;

class SimulatedNetwork : public ::testing::Test {
 protected:
  SimulatedNetwork() {
    service_.on(kDouble, [](CallContext& call) {
      const std::uint32_t number = call.arguments().xdr().u32("number");
      if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
      call.results().xdr().u32(2 * number);
      return AcceptStatus::kSuccess;
    });
    service_.on(kNever, [](CallContext& /*call*/) {});
    service_.on(kCopy,
                [](CallContext& call) {
                  const Bytes data = call.arguments().bulk(kCopyMax, "data");
                  if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
                  call.results().bulk(data);
                  return AcceptStatus::kSuccess;
                },
                {kCopyMax});
  }

  Server listen(Network& network) {
    Server server = network.listen("storage").value();
    EXPECT_TRUE(server.add(kProgram, kVersion, service_));
    return server;
  }
  // Its end goes to results_.
  void start(Client& client, std::uint32_t procedure, std::uint32_t number) {
    auto call = client.prepare({kProgram, kVersion, procedure});
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().xdr().u32(number);
    ASSERT_TRUE(client.start(std::move(*call), [this](Expected<Reply, Error> reply) {
      if (reply) {
        results_.push_back(test::read(*reply)->xdr().u32("result"));
      } else {
        errors_.push_back(reply.error());
      }
    }));
  }
  std::size_t ended() const { return results_.size() + errors_.size(); }

  FunctionService service_;
  std::vector<std::uint32_t> results_;
  std::vector<Error> errors_;
};

TEST_F(SimulatedNetwork, ReplyThatIsReadAndNotCheckedEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto call_and = [this](const std::function<void(Reply&)>& look) {
    Network network(1);
    Server server = listen(network);
    Client client = network.connect(server.address()).value();
    ASSERT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
    auto call = client.prepare({kProgram, kVersion, kDouble});
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().xdr().u32(1);
    bool has_ended = false;
    const auto started = client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
      has_ended = true;
      try {
        Reply mine(std::move(*reply));
        look(mine);
      } catch (const int&) {
        has_ended = true;  // what was thrown is the cause, not the reply
      }
    });
    ASSERT_TRUE(started);
    EXPECT_TRUE(network.run_until([&] { return has_ended; }, server, client));
  };
  call_and([](Reply&) {});
  call_and([](Reply& reply) {
    (void)reply.results().xdr().u32("number");
    EXPECT_FALSE(reply.finish());
  });
  call_and([](Reply& reply) {
    EXPECT_TRUE(reply.decode([](MessageReader& results) { return results.xdr().u32("number"); }));
  });
  call_and([](Reply& reply) {
    (void)reply.results();
    reply.ignore_rest();
  });
  call_and([](Reply& reply) {
    EXPECT_THROW((void)reply.decode([](MessageReader&) -> int { throw 1; }), int);
  });
  call_and([](Reply& reply) {
    (void)reply.results();
    throw 1;
  });
  EXPECT_DEATH(call_and([](Reply& reply) { (void)reply.results().xdr().u32("number"); }),
               "misuse: the results of a reply were read and not checked");
}

TEST_F(SimulatedNetwork, CallIsAnsweredInVirtualTime) {
  Network network(1);
  Server server = listen(network);
  Client client = network.connect(server.address()).value();
  ASSERT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
  const Instant before = network.now();
  start(client, kDouble, 21);
  ASSERT_TRUE(network.run_until([&] { return ended() == 1; }, server, client));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{42});
  EXPECT_GT(network.now(), before);
  EXPECT_TRUE(network.violations().empty());
}

TEST_F(SimulatedNetwork, BulkDataIsPlaced) {
  Network network(1);
  Server server = listen(network);
  Client client = network.connect(server.address()).value();
  ASSERT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
  const std::vector<std::byte> source(300'000, std::byte{7});
  std::vector<std::byte> place(source.size());
  bool was_placed = false;
  auto call = client.prepare({kProgram, kVersion, kCopy});
  ASSERT_TRUE(call);
  call->arguments().bulk(source);
  call->place_result(place);
  ASSERT_TRUE(client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    (void)test::read(*reply)->bulk(kCopyMax, "data");
    was_placed = test::read(*reply)->last_was_placed();
  }));
  ASSERT_TRUE(network.run_until([&] { return was_placed; }, server, client));
  EXPECT_EQ(place, source);
}

TEST_F(SimulatedNetwork, TimeOutCostsNoRealTime) {
  Network network(1);
  Server server = listen(network);
  Client client = network.connect(server.address()).value();
  ASSERT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
  const Instant before = network.now();
  start(client, kNever, 0);
  ASSERT_TRUE(network.run_until([&] { return ended() == 1; }, server, client));
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kTimedOut);
  EXPECT_GE(network.now() - before, std::chrono::seconds(60)) << "the default of a call";
}

TEST_F(SimulatedNetwork, SameSeedGivesTheSameRun) {
  const auto end_of_run = [this](std::uint64_t seed) {
    results_.clear();
    Network network(seed);
    Server server = listen(network);
    Client client = network.connect(server.address()).value();
    EXPECT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
    for (std::uint32_t i = 0; i < 20; ++i) start(client, kDouble, i);
    EXPECT_TRUE(network.run_until([&] { return results_.size() == 20; }, server, client));
    return network.now();
  };
  EXPECT_EQ(end_of_run(5), end_of_run(5));
  EXPECT_NE(end_of_run(5), end_of_run(6));
}

TEST_F(SimulatedNetwork, LosesConnectionsUntilItsFaultsAreStopped) {
  NetworkOptions faults;
  faults.connection_lost_every = 60;
  Network network(3, faults);
  Server server = listen(network);
  ClientOptions options;
  options.reconnect.enabled = true;
  options.reconnect.losses_max = 1000;
  Client client = network.connect(server.address(), options).value();
  ASSERT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
  constexpr std::uint32_t kCalls = 200;
  std::uint32_t started = 0;
  bool was_lost = false;
  ASSERT_TRUE(network.run_until(
      [&] {
        was_lost = was_lost || !client.connected();
        while (started < kCalls && started < ended() + 8) start(client, kDouble, started++);
        return ended() == kCalls;
      },
      server, client));
  EXPECT_TRUE(was_lost);
  EXPECT_EQ(results_.size(), kCalls) << "they are made again over the next connection";
  network.stop_faults();
  EXPECT_TRUE(network.run_until([&] { return client.connected(); }, server, client));
  EXPECT_TRUE(network.violations().empty());
}

TEST_F(SimulatedNetwork, ClientsAreOnHostsOfTheirOwn) {
  Network network(1);
  int executed = 0;
  FunctionService counting;
  counting.on(kDouble,
              [&executed](CallContext& call) {
                call.results().xdr().u32(call.arguments().xdr().u32("number"));
                ++executed;
                return AcceptStatus::kSuccess;
              },
              {.is_idempotent = false});
  Server server = network.listen("storage").value();
  ASSERT_TRUE(server.add(kProgram, kVersion, counting));
  Client one = network.connect(server.address()).value();
  Client other = network.connect(server.address()).value();
  ASSERT_TRUE(
      network.run_until([&] { return one.connected() && other.connected(); }, server, one, other));
  start(one, kDouble, 21);
  start(other, kDouble, 21);
  ASSERT_TRUE(network.run_until([&] { return ended() == 2; }, server, one, other));
  EXPECT_EQ(executed, 2) << "neither is taken for the other's";
}

// A proxy: the end of one call is the answer to another.
TEST_F(SimulatedNetwork, AnswersFromElsewhereTakeNoTime) {
  Network network(1);
  CallContext* held = nullptr;
  service_.on(kNever, [&held](CallContext& call) { held = &call; });
  Server server = listen(network);
  Client one = network.connect(server.address()).value();
  Client other = network.connect(server.address()).value();
  ASSERT_TRUE(
      network.run_until([&] { return one.connected() && other.connected(); }, server, one, other));
  start(one, kNever, 0);
  ASSERT_TRUE(network.run_until([&] { return held != nullptr; }, server, one, other));
  auto call = other.prepare({kProgram, kVersion, kDouble});
  ASSERT_TRUE(call);
  call->arguments().xdr().u32(1);
  ASSERT_TRUE(other.start(std::move(*call), [&held](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply);
    held->results().xdr().u32(7);
    held->succeed();
  }));
  const Instant before = network.now();
  ASSERT_TRUE(network.run_until([&] { return ended() == 1; }, server, one, other));
  EXPECT_LT(network.now() - before, std::chrono::seconds(1));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{7});
}

TEST_F(SimulatedNetwork, RefusesConnections) {
  NetworkOptions faults;
  faults.refused_one_in = 1;
  Network network(1, faults);
  Server server = listen(network);
  Client client = network.connect(server.address()).value();
  ASSERT_TRUE(network.run_until([&] { return client.ended(); }, server, client));
  EXPECT_FALSE(client.connected());
}

TEST_F(SimulatedNetwork, NothingIsGoingToHappenWithoutWork) {
  Network network(1);
  Server server = listen(network);
  EXPECT_FALSE(network.run_until([] { return false; }, server));
}

TEST_F(SimulatedNetwork, ServersHaveAddressesOfTheirOwn) {
  Network network(1);
  Server first = network.listen("storage").value();
  Server second = network.listen("storage").value();
  EXPECT_NE(first.address(), second.address());
  EXPECT_FALSE(network.listen(first.address())) << "somebody listens there";
}

}  // namespace
}  // namespace rpcrdma::testing
