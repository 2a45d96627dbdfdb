// The small client of stream/ at a server of ours.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/server.h"
#include "rpcrdma/xdr.h"
#include "stream/stream_client.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

TEST(StreamClientAtServer, CallsAreAnswered) {
  TestService service;
  auto server = Server::listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(server);
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  std::thread serving([&] { server->run(); });
  const std::string address(server->address());
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  auto client = stream::StreamClient::connect_tcp("the server", "127.0.0.1", port);
  EXPECT_TRUE(client) << client.error().message();
  const auto data = pattern(300'000, 300'000);
  std::vector<std::byte> expected(4 + data.size());
  xdr::Writer(expected).opaque(data);
  std::vector<std::byte> size(4);
  xdr::Writer(size).u32(300'000);
  const auto results =
      client->call({TestService::kProgram, TestService::kVersion, TestService::kProduce}, size);
  EXPECT_TRUE(results && *results == expected);
  const auto refused = client->call({TestService::kProgram, TestService::kVersion, 99}, {});
  EXPECT_TRUE(!refused && refused.error().code == Errc::kNotAvailable);
  server->stop();
  serving.join();
}

}  // namespace
}  // namespace rpcrdma::test
