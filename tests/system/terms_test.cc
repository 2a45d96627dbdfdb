// The terms of a connection, as its client and its server report them.
#include "rpcrdma/terms.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/version_two.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

// A server in its own thread, and the terms that it reported.
class Served {
 public:
  explicit Served(ServerOptions options) {
    options.provider.name = "siwarp";
    options.on_connection = [this](const ConnectionEvent& event) {
      if (event.kind == ConnectionEvent::Kind::kReady) terms.push_back(*event.terms);
    };
    server_.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", options)));
    const auto tcp = server_->add_listener("tcp://127.0.0.1:0");
    EXPECT_TRUE(tcp);
    tcp_url = "tcp://" + tcp.value();
    EXPECT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    url = "rdma://" + std::string(server_->address());
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Served() { stop(); }
  void stop() {
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  std::string url, tcp_url;
  std::vector<ConnectionTerms> terms;  // after stop()

 private:
  TestService service_;
  std::optional<Server> server_;
  std::thread thread_;
};

Client connect(const std::string& url, ClientOptions options = {}) {
  if (url.starts_with("rdma")) options.provider.name = "siwarp";
  auto client = Client::connect(url, options);
  EXPECT_TRUE(client) << client.error().message();
  return std::move(*client);
}

// A call without results; returns what became of it.
std::optional<Error> null(Client& client) {
  auto call = client.prepare({TestService::kProgram, TestService::kVersion, 0});
  if (!call) return call.error();
  auto reply = client.call(std::move(*call));
  return reply ? std::nullopt : std::optional(reply.error());
}

TEST(Terms, EachSideReportsTheLesserOfBothSidesReads) {
  ServerOptions server;
  server.provider.reads_served_max = 3;
  server.provider.reads_in_flight_max = 7;
  Served served(server);
  ClientOptions options;
  options.provider.reads_served_max = 5;
  options.provider.reads_in_flight_max = 9;
  Client client = connect(served.url, options);
  const ConnectionTerms terms = client.connection().terms.value();
  EXPECT_EQ(terms.provider, "siwarp");
  EXPECT_EQ(terms.reads_served_max, 5U);
  EXPECT_EQ(terms.reads_in_flight_max, 3U);
  client.close();
  served.stop();
  ASSERT_EQ(served.terms.size(), 1U);
  EXPECT_EQ(served.terms[0].reads_served_max, 3U);
  EXPECT_EQ(served.terms[0].reads_in_flight_max, 5U);
}

TEST(Terms, CreditsInlineSizesAndInvalidationAreThoseThatBothHave) {
  ServerOptions server;
  server.connection.credits = 11;
  server.connection.inline_size = 8192;
  Served served(server);
  ClientOptions options;
  options.connection.inline_size = 2048;
  options.connection.credits = 20;
  Client client = connect(served.url, options);
  ASSERT_FALSE(null(client));
  ConnectionTerms terms = client.connection().terms.value();
  EXPECT_EQ(terms.protocol_version, 1U);
  EXPECT_EQ(terms.credits, 11U) << "those of the server, which has fewer";
  EXPECT_EQ(terms.inline_sent, 2048U);
  EXPECT_EQ(terms.inline_received, 2048U);
  EXPECT_TRUE(terms.remote_invalidation);
  client.close();
  served.stop();
  ASSERT_EQ(served.terms.size(), 1U);
  EXPECT_EQ(served.terms[0].protocol_version, 0U) << "no message has come yet";
  EXPECT_EQ(served.terms[0].credits, 11U);
  EXPECT_EQ(served.terms[0].inline_sent, 2048U);
}

TEST(Terms, CrcIsOnWhereEitherSideWantsIt) {
  for (const bool at_server : {false, true}) {
    for (const bool at_client : {false, true}) {
      ServerOptions server;
      server.provider.crc = at_server;
      Served served(server);
      ClientOptions options;
      options.provider.crc = at_client;
      Client client = connect(served.url, options);
      EXPECT_EQ(client.connection().terms.value().crc, at_server || at_client);
      client.close();
      served.stop();
      EXPECT_EQ(served.terms.at(0).crc, at_server || at_client);
    }
  }
}

TEST(Terms, VersionTwoHasThoseOfItsCharacteristics) {
  ServerOptions server;
  server.connection.inline_arguments_max = 0;
  Served served(server);
  ClientOptions options;
  options.version = ProtocolVersion::kTwo;
  options.connection.inline_size = 16384;
  Client client = connect(served.url, options);
  ASSERT_FALSE(null(client));
  const ConnectionTerms terms = client.connection().terms.value();
  EXPECT_EQ(terms.protocol_version, 2U);
  EXPECT_EQ(terms.inline_sent, client.version_two().characteristics()->peer.receive_size);
  // The server's Sends are no larger than its own Receives.
  EXPECT_EQ(terms.inline_received, client.version_two().characteristics()->peer.receive_size);
}

TEST(Terms, ThereAreNoneOverTcpAndWithoutAConnection) {
  Served served({});
  Client tcp = connect(served.tcp_url);
  ASSERT_FALSE(null(tcp));
  EXPECT_FALSE(tcp.connection().terms);
  Client client = connect(served.url);
  EXPECT_TRUE(client.connection().terms);
  client.close();
  while (client.connected()) {
    client.wait();
    client.progress();
  }
  EXPECT_FALSE(client.connection().terms);
}

// IRD 0 of one side is ORD 0 of the other.
TEST(Terms, WithoutReadsCallsWithReadChunksFailAtOnce) {
  for (const bool by_client : {false, true}) {
    ServerOptions server;
    if (!by_client) server.provider.reads_in_flight_max = 0;
    Served served(server);
    ClientOptions options;
    if (by_client) options.provider.reads_served_max = 0;
    Client client = connect(served.url, options);
    ASSERT_FALSE(null(client));
    const std::vector<std::byte> data(100'000);
    auto call =
        client.prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    const auto reply = client.call(std::move(*call));
    ASSERT_FALSE(reply);
    EXPECT_NE(reply.error().code, Errc::kTimedOut) << reply.error().message();
    EXPECT_FALSE(null(client)) << "the connection goes on";
  }
}

TEST(Terms, AreOneLineOfText) {
  ConnectionTerms terms{.provider = "siwarp",
                        .protocol_version = 1,
                        .credits = 32,
                        .inline_sent = 4096,
                        .inline_received = 1024,
                        .remote_invalidation = true,
                        .crc = true,
                        .reads_in_flight_max = 8,
                        .reads_served_max = 16};
  EXPECT_EQ(to_string(terms),
            "siwarp, RPC-over-RDMA version 1, 32 credits, inline up to 4096 bytes out and 1024 in, "
            "remote invalidation, MPA CRC, RDMA Reads at a time: 16 of the peer (IRD), 8 of this "
            "side (ORD)");
  terms.protocol_version = 0;
  terms.credits = 1;
  terms.remote_invalidation = false;
  terms.crc = false;
  EXPECT_EQ(to_string(terms),
            "siwarp, 1 credit, inline up to 4096 bytes out and 1024 in, no remote invalidation, no "
            "MPA CRC, RDMA Reads at a time: 16 of the peer (IRD), 8 of this side (ORD)");
  terms.provider = "verbs";
  terms.crc.reset();
  EXPECT_EQ(to_string(terms).find("CRC"), std::string::npos);
}

}  // namespace
}  // namespace rpcrdma::test
