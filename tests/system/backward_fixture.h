// Clients that a server has of its clients, over every provider: what the tests of backward calls
// share.
#ifndef RPCRDMA_TESTS_SYSTEM_BACKWARD_FIXTURE_H_
#define RPCRDMA_TESTS_SYSTEM_BACKWARD_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "rpcrdma/backward.h"
#include "rpcrdma/version_two.h"
#include "support/fabric.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {

using Reverse = rpcrdma::Backward;  // the suite has its name here

// Says that the client takes calls, as an upper layer does: procedure 1 of a program of its own.
// The server keeps a client of the client from then on.
class ReadyService final : public Service {
 public:
  static constexpr std::uint32_t kProgram = 0x20010002;

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kTraits{};
    return procedure == 1 ? &kTraits : nullptr;
  }
  void call(CallContext& context) override {
    if (clock != nullptr) made_at = clock->now();
    if (resumes) {
      const auto resumed = Reverse::resume(*client, context);
      refused = resumed ? std::nullopt : std::optional(resumed.error());
      return context.succeed();
    }
    auto made = Reverse::client_of(context, options);
    if (made) {
      client.emplace(std::move(*made));
      refused.reset();
    } else {
      refused = made.error();
    }
    context.succeed();
  }

  BackwardOptions options;
  bool resumes = false;  // with the client that there is
  std::optional<Client> client;
  std::optional<Error> refused;
  rdma::Provider* clock = nullptr;
  Instant made_at{};  // by `clock`
};

inline ClientOptions client_options(std::uint32_t backward_calls = 4, bool reconnect = false) {
  ClientOptions options;
  options.backward_calls = backward_calls;
  options.reconnect.enabled = reconnect;
  return options;
}
inline ServerOptions server_options(std::uint32_t backward_calls = 8) {
  ServerOptions options;
  options.backward_calls = backward_calls;
  return options;
}

class Backward : public ::testing::TestWithParam<Fabric> {
 protected:
  void connect(const ClientOptions& client = client_options(),
               const ServerOptions& server = server_options()) {
    pair.emplace(GetParam().make(), client, server);
    ASSERT_TRUE(pair->server->add(ReadyService::kProgram, 1, ready));
    if (client.backward_calls > 0) {
      ASSERT_TRUE(
          Reverse::serve(*pair->client, TestService::kProgram, TestService::kVersion, on_client));
    }
  }
  // The client says that it is ready; the server then has a client of it, or a reason.
  void announce() {
    auto call = pair->client->prepare({ReadyService::kProgram, 1, 1});
    ASSERT_TRUE(call);
    EXPECT_FALSE(pair->finish(std::move(*call), [](Reply&) {}));
  }
  void connect_both_ways() {
    connect();
    announce();
    ASSERT_TRUE(ready.client) << (ready.refused ? ready.refused->message() : "");
  }

  void connect_in_version_two(ClientOptions options = client_options()) {
    options.version = ProtocolVersion::kTwo;
    connect(options);
    announce();
  }

  Call backward_call(std::uint32_t procedure) {
    auto call = ready.client->prepare({TestService::kProgram, TestService::kVersion, procedure});
    EXPECT_TRUE(call) << call.error().message();
    return std::move(*call);
  }
  // Makes a call and waits for its end.
  std::optional<Error> finish(Call call, const std::function<void(Reply&)>& read = {}) {
    std::optional<Error> error;
    int ends = 0;
    auto started = ready.client->start(std::move(call), [&](Expected<Reply, Error> reply) {
      ++ends;
      if (!reply) {
        error = reply.error();
      } else if (read) {
        read(*reply);
        error = reply->finish();
      }
    });
    if (!started) return started.error();
    EXPECT_TRUE(pair->run_until([&] { return ends > 0; }));
    EXPECT_EQ(ends, 1);
    return error;
  }
  std::optional<Error> echo(std::size_t size, std::uint32_t seed) {
    const auto data = pattern(size, seed);
    Call call = backward_call(TestService::kEcho);
    call.arguments().bulk(data);
    call.expect_results(static_cast<std::uint32_t>(size) + 8);
    return finish(std::move(call), [&](Reply& reply) {
      const Bytes back = reply.results().bulk(1U << 20U, "data");
      EXPECT_TRUE(std::ranges::equal(back, data));
    });
  }
  void expect_forward_works() {
    auto call = pair->prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    const auto data = pattern(50'000, 9);
    call->arguments().bulk(data);
    std::vector<std::byte> room(50'000);
    call->place_result(room);
    EXPECT_FALSE(pair->finish(std::move(*call), [&](Reply& reply) {
      EXPECT_EQ(reply.results().bulk(1U << 20U, "data").size(), data.size());
    }));
    EXPECT_EQ(room, data);
  }

  TestService on_client;
  ReadyService ready;
  std::optional<RpcPair> pair;  // goes first: services outlive who they serve
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_BACKWARD_FIXTURE_H_
