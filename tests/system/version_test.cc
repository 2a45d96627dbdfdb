// Which version of RPC-over-RDMA a client and a server speak, end to end over both providers: every
// mix of ours, and servers that know version 1 only in each of the ways in which they show it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/call/connecting_client.h"
#include "rpcrdma/version_two.h"
#include "support/fabric.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

class Version : public ::testing::TestWithParam<Fabric> {
 protected:
  static RpcPair make(ProtocolVersion client_version, ProtocolVersion server_version,
                      ClientOptions client = {}, ServerOptions server = {}) {
    client.version = client_version;
    server.version = server_version;
    return RpcPair(GetParam().make(), client, server);
  }
  // Echoes `size` bytes, with a place for them or without.
  static std::optional<Error> echo(RpcPair& pair, std::size_t size, bool has_place) {
    const auto sent = pattern(size, static_cast<std::uint32_t>(size));
    std::vector<std::byte> place(size), got;
    auto call = pair.prepare(TestService::kEcho);
    if (!call) return call.error();
    call->arguments().bulk(sent);
    if (has_place) call->place_result(place);
    call->expect_results(static_cast<std::uint32_t>(size) + 8);
    auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      const Bytes data = reply.results().bulk(TestService::kBulkMax, "data");
      got.assign(data.begin(), data.end());
    });
    if (!error) {
      EXPECT_EQ(got, sent) << size;
    }
    return error;
  }
  static void expect_echoes(RpcPair& pair) {
    for (const std::size_t size : {1U, 100U, 1000U, 3900U, 4096U, 20'000U, 300'000U}) {
      for (const bool has_place : {false, true}) {
        const auto error = echo(pair, size, has_place);
        EXPECT_FALSE(error) << error->message();
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, Version,
                         ::testing::Values(Fabric{"sim", [] { return test::make_sim(5, {}); }},
                                           Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

TEST_P(Version, IsTheHighestThatBothHave) {
  using enum ProtocolVersion;
  struct Mix {
    ProtocolVersion client, server;
    std::uint32_t spoken;
  };
  for (const Mix& mix :
       {Mix{kOne, kOne, 1}, Mix{kOne, kAny, 1}, Mix{kTwo, kTwo, 2}, Mix{kTwo, kAny, 2},
        Mix{kAny, kOne, 1}, Mix{kAny, kTwo, 2}, Mix{kAny, kAny, 2}}) {
    SCOPED_TRACE(::testing::Message()
                 << static_cast<int>(mix.client) << " with " << static_cast<int>(mix.server));
    RpcPair pair = make(mix.client, mix.server);
    EXPECT_EQ(pair.client->connection().protocol_version, mix.spoken);
    expect_echoes(pair);
    const std::uint32_t refused = mix.client == kAny && mix.server == kOne ? 1 : 0;
    const std::uint32_t offered = mix.client == kOne ? 0 : 1;
    EXPECT_EQ(pair.server->counters().errors_sent, refused);
    EXPECT_TRUE(
        pair.run_until([&] { return pair.server->counters().calls == 14U + offered + refused; }));
    EXPECT_EQ(pair.network->violations(), std::vector<std::string>());
  }
}

TEST_P(Version, MayBeTooNewForTheClient) {
  RpcPair pair = make(ProtocolVersion::kOne, ProtocolVersion::kTwo);
  const auto error = echo(pair, 100, false);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kVersion) << error->message();
  EXPECT_EQ(pair.service.calls, 0U);
}

// Both sides say that they have larger Receives, and use them.
TEST_P(Version, TwoMovesInlineWhatTheReceivesOfBothHold) {
  for (const std::uint32_t server_size : {4096U, 65'536U}) {
    SCOPED_TRACE(server_size);
    ClientOptions client;
    ServerOptions server;
    client.connection.inline_size = 65'536;
    server.connection.inline_size = server_size;
    client.connection.reduce_size_min = server.connection.reduce_size_min = 100'000;
    RpcPair pair = make(ProtocolVersion::kTwo, ProtocolVersion::kAny, client, server);
    // The server says what it is when the client has, in front of its next reply.
    EXPECT_FALSE(echo(pair, 100, false));
    const auto both = pair.client->version_two().characteristics();
    ASSERT_TRUE(both);
    EXPECT_EQ(both->own, (Characteristics{65'536, true, BackwardSupport::kNone}));
    EXPECT_EQ(both->peer, (Characteristics{server_size, false, BackwardSupport::kInline}));
    const auto error = echo(pair, 32'768, false);
    EXPECT_FALSE(error) << error->message();
    const TransferCounters counters = pair.client->counters();
    const bool is_inline = server_size == 65'536;
    EXPECT_EQ(counters.read_chunks + counters.long_calls, is_inline ? 0U : 1U);
    EXPECT_EQ(counters.reply_chunks, is_inline ? 0U : 1U);
    expect_echoes(pair);
  }
  RpcPair old = make(ProtocolVersion::kOne, ProtocolVersion::kAny);
  EXPECT_FALSE(old.client->version_two().characteristics()) << "version 1 has none";
}

// Returns what became of a request, once it has ended.
std::optional<ChangeResult> end_of(RpcPair& pair, std::uint32_t size) {
  std::optional<ChangeResult> end;
  const auto asked = pair.client->version_two().request_receive_size(
      size, [&end](ChangeResult result) { end = result; });
  EXPECT_TRUE(asked) << asked.error().message();
  EXPECT_TRUE(pair.run_until([&] { return end.has_value(); }));
  return end;
}

// Nobody makes calls meanwhile: the server uses up its smaller Receives by itself.
TEST_P(Version, TwoRaisesAndLowersReceivesOnRequest) {
  ClientOptions client;
  ServerOptions server;
  server.connection.receive_size_max = 65'536;
  client.connection.reduce_size_min = 100'000;
  RpcPair pair = make(ProtocolVersion::kTwo, ProtocolVersion::kAny, client, server);
  EXPECT_EQ(end_of(pair, 65'536), ChangeResult::kGranted);
  EXPECT_EQ(pair.client->version_two().characteristics()->peer.receive_size, 65'536U);
  ASSERT_FALSE(echo(pair, 32'768, true));
  EXPECT_EQ(pair.client->counters().read_chunks + pair.client->counters().long_calls, 0U)
      << "the argument went inline";
  EXPECT_EQ(end_of(pair, 8192), ChangeResult::kGranted);
  ASSERT_FALSE(echo(pair, 32'768, true));
  EXPECT_EQ(pair.client->counters().read_chunks + pair.client->counters().long_calls, 1U);
  EXPECT_EQ(end_of(pair, 65'537), ChangeResult::kRejected);
  EXPECT_EQ(pair.client->version_two().characteristics()->peer.receive_size, 8192U);
  expect_echoes(pair);
  EXPECT_EQ(pair.network->violations(), std::vector<std::string>());
}

TEST_P(Version, TwoRaisesItsOwnReceives) {
  ServerOptions server;
  server.connection.inline_size = 65'536;
  ClientOptions client;
  client.connection.reduce_size_min = 100'000;
  RpcPair pair = make(ProtocolVersion::kTwo, ProtocolVersion::kAny, client, server);
  ASSERT_FALSE(echo(pair, 32'768, false));
  EXPECT_EQ(pair.client->counters().reply_chunks, 1U);
  ASSERT_TRUE(pair.client->version_two().raise_receive_size(65'536));
  EXPECT_TRUE(pair.run_until(
      [&] { return pair.client->version_two().characteristics()->own.receive_size == 65'536; }));
  EXPECT_FALSE(pair.client->version_two().raise_receive_size(65'536));
  ASSERT_FALSE(echo(pair, 32'768, false));
  EXPECT_EQ(pair.client->counters().reply_chunks, 1U) << "the second came inline";
  expect_echoes(pair);
}

TEST_P(Version, OneHasNothingToRequest) {
  RpcPair pair = make(ProtocolVersion::kOne, ProtocolVersion::kAny);
  const auto asked = pair.client->version_two().request_receive_size(65'536, {});
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, Errc::kUnsupported);
  EXPECT_FALSE(pair.client->version_two().raise_receive_size(65'536));
}

TEST_P(Version, RequestsWaitForTheirTimeAndEndWithTheClient) {
  ServerOptions server;
  server.connection.receive_size_max = 65'536;
  RpcPair pair = make(ProtocolVersion::kTwo, ProtocolVersion::kAny, {}, server);
  std::optional<ChangeResult> end;
  const auto take = [&end](ChangeResult result) { end = result; };
  ASSERT_TRUE(
      pair.client->version_two().request_receive_size(65'536, take, std::chrono::milliseconds(20)));
  EXPECT_FALSE(pair.client->version_two().request_receive_size(65'536, take)) << "one at a time";
  EXPECT_FALSE(end);
  EXPECT_TRUE(pair.run_until([&] { return end.has_value(); }));
  EXPECT_EQ(end, ChangeResult::kGranted);
  end.reset();
  ASSERT_TRUE(pair.client->version_two().request_receive_size(8192, take, std::chrono::hours(1)));
  pair.client.reset();
  EXPECT_EQ(end, ChangeResult::kLost);
}

// A callback may ask again; and each runs when there is nothing more to wait for.
TEST_P(Version, RequestsEndWithTheConnection) {
  for (const bool reconnects : {false, true}) {
    SCOPED_TRACE(reconnects);
    ClientOptions client;
    client.reconnect.enabled = reconnects;
    ServerOptions server;
    server.connection.receive_size_max = 65'536;
    RpcPair pair = make(ProtocolVersion::kTwo, ProtocolVersion::kAny, client, server);
    std::vector<ChangeResult> ends;
    std::function<void(ChangeResult)> again = [&](ChangeResult result) {
      ends.push_back(result);
      if (ends.size() < 3) (void)pair.client->version_two().request_receive_size(65'536, again);
    };
    ASSERT_TRUE(pair.client->version_two().request_receive_size(65'536, again,
                                                                std::chrono::milliseconds(50)));
    EXPECT_FALSE(pair.client->version_two().request_receive_size(1000, {}))
        << "nobody has less than 4096";
    pair.kill_server();
    if (reconnects) {
      pair.start_server();
      EXPECT_TRUE(pair.run_until([&] { return ends.size() == 3; }));
      EXPECT_EQ(ends.back(), ChangeResult::kGranted);
    } else {
      EXPECT_TRUE(pair.run_until([&] { return !ends.empty(); }));
      EXPECT_EQ(ends, std::vector{ChangeResult::kLost}) << "there is no connection to ask on";
    }
  }
}

// --- Characteristics of the application's own --------------------------------------------------

using Word = std::array<std::byte, xdr::kWordSize>;
Word word(std::uint32_t value) {
  Word bytes{};
  xdr::store_word(bytes.data(), value);
  return bytes;
}
std::uint32_t number(Bytes value) {
  return value.size() == xdr::kWordSize ? xdr::load_word(value.data()) : 0xffff;
}

// One number on each side, which is below 100; the server gives up to 50.
class Experiment : public ::testing::TestWithParam<Fabric> {
 protected:
  static constexpr std::uint32_t kId = 0xffffff07;

  CharacteristicType type(std::vector<std::uint32_t>& heard) {
    const Word initial = word(1);
    return {.id = kId,
            .initial = {initial.begin(), initial.end()},
            .is_value = [](Bytes value) { return number(value) < 100; },
            .grants = [](Bytes value) { return number(value) <= 50; },
            .on_change = [&heard](Bytes value) { heard.push_back(number(value)); }};
  }
  RpcPair make() {
    ClientOptions client;
    ServerOptions server;
    client.version = ProtocolVersion::kTwo;
    client.characteristics = {type(client_heard)};
    server.characteristics = {type(server_heard)};
    return RpcPair(GetParam().make(), client, server);
  }
  ChangeResult ask(RpcPair& pair, std::uint32_t value) {
    std::optional<ChangeResult> end;
    const auto asked = pair.client->version_two().request_characteristic(
        kId, word(value), [&end](ChangeResult result) { end = result; });
    EXPECT_TRUE(asked);
    EXPECT_TRUE(pair.run_until([&] { return end.has_value(); }));
    return *end;
  }
  std::vector<std::uint32_t> client_heard, server_heard;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, Experiment,
                         ::testing::Values(Fabric{"sim", [] { return test::make_sim(5, {}); }},
                                           Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

TEST_P(Experiment, ChangesOnBothSides) {
  RpcPair pair = make();
  EXPECT_TRUE(pair.run_until(
      [&] { return pair.client->version_two().peer_characteristic(kId).has_value(); }));
  EXPECT_EQ(number(*pair.client->version_two().peer_characteristic(kId)), 1U);
  EXPECT_EQ(ask(pair, 40), ChangeResult::kGranted);
  EXPECT_EQ(number(*pair.client->version_two().peer_characteristic(kId)), 40U);
  EXPECT_EQ(ask(pair, 60), ChangeResult::kRejected);
  EXPECT_EQ(number(*pair.client->version_two().peer_characteristic(kId)), 40U);
  for (const std::uint32_t value : {7U, 8U, 9U}) {
    ASSERT_TRUE(pair.client->version_two().set_characteristic(kId, word(value)));
    EXPECT_TRUE(
        pair.run_until([&] { return !server_heard.empty() && server_heard.back() == value; }));
  }
  EXPECT_EQ(server_heard, (std::vector<std::uint32_t>{7, 8, 9}));
  EXPECT_EQ(client_heard, std::vector<std::uint32_t>{40});
}

TEST_P(Experiment, HasValuesOfItsTypeOnly) {
  RpcPair pair = make();
  EXPECT_FALSE(pair.client->version_two().set_characteristic(kId, word(100)));
  EXPECT_FALSE(pair.client->version_two().set_characteristic(kId + 1, word(1)));
  EXPECT_FALSE(pair.client->version_two().request_characteristic(kId, word(100), {}));
  EXPECT_FALSE(pair.client->version_two().peer_characteristic(kId + 1));
}

// The other side has no such type: nothing is kept, and nothing granted.
TEST_P(Experiment, IsUnknownToOthers) {
  ClientOptions client;
  client.version = ProtocolVersion::kTwo;
  client.characteristics = {type(client_heard)};
  RpcPair pair(GetParam().make(), client, {});
  EXPECT_EQ(ask(pair, 40), ChangeResult::kRejected);
  EXPECT_TRUE(pair.client->version_two().set_characteristic(kId, word(5)));
  EXPECT_EQ(ask(pair, 40), ChangeResult::kRejected) << "the connection lives on";
}

// The server gets a new one: a client that was refused offers version 2 no more.
TEST_P(Version, IsRememberedWhenTheConnectionIsMadeAgain) {
  ClientOptions options;
  options.reconnect.enabled = true;
  for (const auto version : {ProtocolVersion::kOne, ProtocolVersion::kAny}) {
    RpcPair pair = make(ProtocolVersion::kAny, version, options);
    ASSERT_FALSE(echo(pair, 100, false));
    pair.kill_server();
    pair.start_server();
    ASSERT_FALSE(echo(pair, 100, false));
    const bool is_one = version == ProtocolVersion::kOne;
    EXPECT_EQ(pair.client->connection().protocol_version, is_one ? 1U : 2U);
    EXPECT_EQ(pair.server->counters().errors_sent, 0U) << "version 2 is not offered again";
    EXPECT_TRUE(
        pair.run_until([&] { return pair.server->counters().calls == (is_one ? 1U : 2U); }));
  }
}

TEST_P(Version, ServerThatHasOnlyVersionOneNowIsSpokenToInIt) {
  ClientOptions options;
  options.reconnect.enabled = true;
  RpcPair pair = make(ProtocolVersion::kAny, ProtocolVersion::kAny, options);
  ASSERT_FALSE(echo(pair, 100, false));
  pair.kill_server();
  ServerOptions older;
  older.version = ProtocolVersion::kOne;
  pair.start_server(older);
  ASSERT_FALSE(echo(pair, 100, false));
  EXPECT_EQ(pair.client->connection().protocol_version, 1U);
}

// --- Servers of others -------------------------------------------------------------------------

// Answers by hand. Each connection has a few Receives.
class RawServer {
 public:
  // Null: no answer.
  using Answer = std::function<std::optional<Message>(std::size_t connection, Bytes message)>;

  RawServer(rdma::Provider& provider, const std::string& address, Answer answer)
      : provider_(provider),
        listener_(std::move(provider.listen(address).value())),
        answer_(std::move(answer)) {}

  std::string address() const { return std::string(listener_->address()); }
  std::size_t connections() const { return peers_.size(); }
  void end(std::size_t connection) {
    peers_[connection]->queue_pair->disconnect();
    peers_[connection]->ended = true;
  }

  void progress() {
    provider_.progress();
    while (auto incoming = listener_->poll_incoming()) {
      auto peer = std::make_unique<Peer>();
      peer->queue_pair = std::move(provider_.accept(std::move(incoming), {}).value());
      peer->region = peer->queue_pair->attach(peer->memory).value();
      peers_.push_back(std::move(peer));
      post(*peers_.back(), 0);
      post(*peers_.back(), 1);
    }
    for (std::size_t i = 0; i < peers_.size(); ++i) serve(i);
  }

 private:
  static constexpr std::uint32_t kSize = 4096;  // bytes of each Receive, and of the Send
  struct Peer {
    std::unique_ptr<rdma::QueuePair> queue_pair;
    std::vector<std::byte> memory = std::vector<std::byte>(3 * kSize);
    rdma::RegionId region{};
    bool ended = false;
  };

  static void post(Peer& peer, std::uint16_t number) {
    const std::uint16_t numbers[] = {number};
    ASSERT_TRUE(peer.queue_pair->post_receives({peer.region, kSize, kSize}, numbers));
  }
  void serve(std::size_t index) {
    Peer& peer = *peers_[index];
    while (const auto event = peer.queue_pair->poll_link()) {
      peer.ended = peer.ended || *event == rdma::LinkEvent::kDisconnected;
    }
    std::array<rdma::Completion, 4> done;
    const std::size_t count = peer.queue_pair->poll(done);
    for (const rdma::Completion& each : std::span(done).first(count)) {
      if (each.id > 1 || each.status != rdma::Status::kOk || peer.ended) continue;
      const std::byte* const message =
          each.message != nullptr ? each.message : &peer.memory[each.id * kSize];
      const auto answer = answer_(index, {message, each.size});
      if (peer.ended) return;
      post(peer, static_cast<std::uint16_t>(each.id));
      if (answer) send(peer, *answer);
    }
  }
  static void send(Peer& peer, const Message& message) {
    std::ranges::copy(message, peer.memory.begin() + 2 * kSize);
    const rdma::Slice from[] = {
        {peer.region, static_cast<std::uint32_t>(message.size()), std::uint64_t{2} * kSize}};
    work::Request request;
    request.id = 100;
    request.work = rdma::Send{from, {}};
    ASSERT_TRUE(peer.queue_pair->post({&request, 1}));
  }

  rdma::Provider& provider_;
  std::unique_ptr<rdma::Listener> listener_;
  const Answer answer_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

std::uint32_t word(Bytes message, std::size_t index) {
  return xdr::load_word(message.data() + index * xdr::kWordSize);
}
// A NULL reply of version 1.
Message reply_v1(Bytes call) {
  return test::join(
      {test::words({word(call, 0), 1, 8, 0, 0, 0, 0}), test::raw_reply(word(call, 0))});
}

// It takes the place of one that had both versions, and lets messages of version 2 pass.
TEST_P(Version, ServerThatIsSilentToVersionTwoNowIsSpokenToInVersionOne) {
  ClientOptions options;
  options.reconnect.enabled = true;
  options.provider.setup_timeout_client = std::chrono::milliseconds(200);
  RpcPair pair = make(ProtocolVersion::kAny, ProtocolVersion::kAny, options);
  ASSERT_FALSE(echo(pair, 100, false));
  ASSERT_EQ(pair.client->connection().protocol_version, 2U);
  const std::string address(pair.server->address());
  pair.kill_server();
  std::size_t offers = 0;
  RawServer other(pair.network->server_side(), address,
                  [&](std::size_t, Bytes message) -> std::optional<Message> {
                    if (word(message, 1) == 1) return reply_v1(message);
                    ++offers;
                    return std::nullopt;
                  });
  auto call = pair.prepare(TestService::kNull);
  ASSERT_TRUE(call);
  bool ended = false;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    EXPECT_TRUE(reply) << reply.error().message();
    ended = true;
  }));
  EXPECT_TRUE(pair.run_until([&] {
    other.progress();
    return ended;
  }));
  EXPECT_EQ(pair.client->connection().protocol_version, 1U);
  EXPECT_GE(offers, 2U) << "once, it may have been busy";
  EXPECT_LE(offers, 3U);
}

class OtherServer : public Version {
 protected:
  // Connects to it, or fails to.
  void start(RawServer::Answer answer, ProtocolVersion version = ProtocolVersion::kAny) {
    server_.emplace(network_->server_side(), network_->listen_address(), std::move(answer));
    ClientOptions options;
    options.version = version;
    options.provider.setup_timeout_client = std::chrono::milliseconds(200);
    client_ = std::move(
        ConnectingClient::connect_on(network_->client_side(), server_->address(), options).value());
    ASSERT_TRUE(run_until([&] { return client_->connected() || client_->ended(); }));
  }
  bool run_until(const std::function<bool()>& condition) {
    for (int left = 1'000'000; left > 0; --left) {
      client_->progress();
      server_->progress();
      if (condition()) return true;
      network_->wait();
    }
    return false;
  }
  // Makes a NULL call; its error, if any.
  std::optional<Error> call() {
    std::optional<Error> error;
    bool ended = false;
    auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 0});
    if (!call) return call.error();
    EXPECT_TRUE(client_->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ended = true;
      if (!reply) error = reply.error();
    }));
    EXPECT_TRUE(run_until([&] { return ended; }));
    return error;
  }
  // Two calls, of version 1, are answered.
  void expect_served() {
    ASSERT_TRUE(client_->connected());
    EXPECT_EQ(client_->connection().protocol_version, 1U);
    for (int i = 0; i < 2; ++i) {
      const auto error = call();
      EXPECT_FALSE(error) << error->message();
    }
  }

  std::unique_ptr<test::Network> network_ = GetParam().make();
  std::optional<RawServer> server_;
  std::optional<Client> client_;
  std::vector<std::uint32_t> versions_;  // of the messages that the server got
};
INSTANTIATE_TEST_SUITE_P(Fabrics, OtherServer,
                         ::testing::Values(Fabric{"sim", [] { return test::make_sim(5, {}); }},
                                           Fabric{"siwarp",
                                                  [] { return test::make_siwarp(true); }}),
                         name_of_fabric);

TEST_P(OtherServer, IsConnectedToAgainInVersionOneIfItIsSilent) {
  start([&](std::size_t, Bytes message) -> std::optional<Message> {
    versions_.push_back(word(message, 1));
    if (word(message, 1) == 2) return std::nullopt;
    return reply_v1(message);
  });
  expect_served();
  EXPECT_EQ(versions_, (std::vector<std::uint32_t>{2, 1, 1}));
  EXPECT_EQ(server_->connections(), 2U);
}

TEST_P(OtherServer, IsSpokenToOnTheSameConnectionIfItNamesVersionOne) {
  start([&](std::size_t, Bytes message) -> std::optional<Message> {
    versions_.push_back(word(message, 1));
    if (word(message, 1) == 1) return reply_v1(message);
    return test::words({word(message, 0), 1, 8, 4, 1, 1, 1});
  });
  expect_served();
  EXPECT_EQ(versions_, (std::vector<std::uint32_t>{2, 1, 1, 1}));
  EXPECT_EQ(server_->connections(), 1U);
}

// The draft has it in its list: the connection ends behind the error.
TEST_P(OtherServer, IsConnectedToAgainIfItNamesVersionOneAndLeaves) {
  start([&](std::size_t connection, Bytes message) -> std::optional<Message> {
    versions_.push_back(word(message, 1));
    if (connection > 0) return reply_v1(message);
    if (word(message, 1) == 2) return test::words({word(message, 0), 2, 8, 4, 1, 1, 1});
    server_->end(connection);
    return std::nullopt;
  });
  expect_served();
  EXPECT_EQ(versions_, (std::vector<std::uint32_t>{2, 1, 1, 1}));
  EXPECT_EQ(server_->connections(), 2U);
}

TEST_P(OtherServer, WithoutACommonVersionIsAskedOnce) {
  for (const auto& [version, only] :
       {std::pair(ProtocolVersion::kAny, 3U), std::pair(ProtocolVersion::kTwo, 1U)}) {
    versions_.clear();
    start(
        [&, only = only](std::size_t, Bytes message) -> std::optional<Message> {
          versions_.push_back(word(message, 1));
          return test::words({word(message, 0), word(message, 1), 8, 4, 1, only, only});
        },
        version);
    EXPECT_TRUE(client_->ended());
    EXPECT_EQ(versions_, (std::vector<std::uint32_t>{2}));
    const auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 0});
    ASSERT_FALSE(call);
    EXPECT_EQ(call.error().code, Errc::kVersion) << call.error().message();
    client_.reset();
    server_.reset();
  }
}

}  // namespace
}  // namespace rpcrdma::test
