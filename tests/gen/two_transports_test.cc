// One service object, its generated client and coroutines, over rdma:// and tcp:// at once.
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "every.h"
#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/server.h"
#include "support/rpc_fixture.h"

namespace rpcrdma {
namespace {

constexpr std::uint32_t kSize = 300'000;  // bytes, each way

class OneService final : public every::EVERY_V1_Service {
 public:
  void EVERY_ADD(Answer<std::int32_t> answer, std::int32_t arg1, std::int32_t arg2) override {
    ++calls;
    answer.succeed(arg1 + arg2);
  }
  void EVERY_PLACED(Answer<every::maybe_placed> answer, every::placed arg1,
                    std::uint32_t /*arg2*/) override {
    ++calls;
    every::maybe_placed results;
    every::placed& placed = results.set_all(arg1);
    placed.data = answer.keep(arg1.data);
    const Bytes text = answer.keep(std::as_bytes(std::span(arg1.text)));
    placed.text = {reinterpret_cast<const char*>(text.data()), text.size()};
    answer.succeed(results);
  }
  int calls = 0;
};

class TwoTransports : public ::testing::Test {
 protected:
  TwoTransports() {
    ServerOptions options;
    options.provider.name = "siwarp";
    server_.emplace(Server::listen("rdma://127.0.0.1:0", options).value());
    tcp_url_ = "tcp://" + server_->add_listener("tcp://127.0.0.1:0").value();
    EXPECT_TRUE(server_->add(OneService::kProgram, OneService::kVersion, service_));
  }
  Client connect(const std::string& url) {
    ClientOptions options;
    options.provider.name = "siwarp";
    Client client = Client::begin_connect(url, options).value();
    run(client, [&] { return client.connected(); });
    return client;
  }
  std::string rdma_url() const { return "rdma://" + std::string(server_->address()); }

  void run(Client& client, const std::function<bool()>& condition) {
    for (int left = 100'000; left > 0; --left) {
      server_->progress();
      client.progress();
      if (condition()) return;
      pollfd fds[] = {{server_->wait_fd(), POLLIN, 0}, {client.wait_fd(), POLLIN, 0}};
      ASSERT_GT(::poll(fds, 2, 10'000), 0) << "nothing happens";
    }
    FAIL() << "the condition never holds";
  }

  OneService service_;
  std::optional<Server> server_;
  std::string tcp_url_;
};

// A sum by two calls, and bulk data there and back.
Task<void> talk(Client& connection, std::vector<std::byte>& room, std::string& outcome) {
  every::EVERY_V1_Client client(connection);
  const auto first = co_await client.EVERY_ADD_async(20, 1);
  const auto sum = first ? co_await client.EVERY_ADD_async(*first, 21) : first;
  if (!sum || *sum != 42) {
    outcome = sum ? "a wrong sum" : sum.error().message();
    co_return;
  }
  const std::vector<std::byte> data = test::pattern(kSize, 3);
  every::placed value;
  value.data = data;
  value.text = "beside it";
  const auto back = co_await client.EVERY_PLACED_async(value, 0, {room});
  if (!back) {
    outcome = back.error().message();
    co_return;
  }
  const auto* placed = back->all();
  const bool is_right = placed != nullptr && std::ranges::equal(placed->data, data) &&
                        placed->text == "beside it" && placed->data.data() == room.data();
  outcome = is_right ? "right" : "other data, or not in its place";
}

TEST_F(TwoTransports, AreAllTheSameToAServiceAndItsClients) {
  for (const std::string& url : {rdma_url(), tcp_url_}) {
    SCOPED_TRACE(url);
    Client client = connect(url);
    std::vector<std::byte> room(kSize);
    std::string outcome;
    start_detached(talk(client, room, outcome));
    run(client, [&] { return !outcome.empty(); });
    EXPECT_EQ(outcome, "right");
  }
  EXPECT_EQ(service_.calls, 6);
}

TEST_F(TwoTransports, ServeTheCallbacksOfAGeneratedClient) {
  for (const std::string& url : {rdma_url(), tcp_url_}) {
    SCOPED_TRACE(url);
    Client client = connect(url);
    every::EVERY_V1_Client stub(client);
    std::optional<std::int32_t> sum;
    ASSERT_TRUE(stub.EVERY_ADD_start(4, 5, [&](Expected<std::int32_t, Error> result) {
      ASSERT_TRUE(result) << result.error().message();
      sum = *result;
    }));
    run(client, [&] { return sum.has_value(); });
    EXPECT_EQ(sum, 9);
  }
}

}  // namespace
}  // namespace rpcrdma
