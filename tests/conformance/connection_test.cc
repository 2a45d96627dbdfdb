// How connections begin.
#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::Errc;
using rdma::LinkEvent;

class ConnectionSetUp : public ProviderTest {};
INSTANTIATE_TEST_SUITE_P(Provider, ConnectionSetUp, testing::ValuesIn(fabrics()), fabric_name);

TEST_P(ConnectionSetUp, ListenerTellsItsRealPort) {
  EXPECT_FALSE(listener->address().empty());
  EXPECT_FALSE(listener->address().ends_with(":0"));
}

TEST_P(ConnectionSetUp, PrivateDataReachesBothSides) {
  const std::vector<std::byte> from_client{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::vector<std::byte> from_server(8, std::byte{0x5a});
  connect(client, server, {from_client, from_server});
  expect_private_data(client.queue_pair().peer_private_data(), from_server);
  expect_private_data(server.queue_pair().peer_private_data(), from_client);
}

TEST_P(ConnectionSetUp, PrivateDataCanBeReadBeforeTheRequestIsAccepted) {
  const std::vector<std::byte> data(8, std::byte{0x77});
  auto connecting = fabric->client().connect(listener->address(), data);
  ASSERT_TRUE(connecting.has_value());
  EXPECT_TRUE((*connecting)->peer_private_data().empty());
  std::unique_ptr<rdma::Incoming> incoming;
  ASSERT_TRUE(pump_until([&] { return (incoming = listener->poll_incoming()) != nullptr; }));
  expect_private_data(incoming->private_data(), data);
  EXPECT_FALSE(incoming->peer_address().empty());
}

TEST_P(ConnectionSetUp, NoPrivateDataIsFine) {
  connect(client, server);
  EXPECT_TRUE(client.queue_pair().peer_private_data().empty());
  EXPECT_TRUE(server.queue_pair().peer_private_data().empty());
}

TEST_P(ConnectionSetUp, BothSidesKnowAnAddressOfTheOther) {
  connect(client, server);
  EXPECT_EQ(client.queue_pair().peer_address(), listener->address());
  EXPECT_FALSE(server.queue_pair().peer_address().empty());
}

TEST_P(ConnectionSetUp, ReportsOnceThatItIsConnected) {
  connect(client, server);
  barrier(client, server);
  barrier(server, client);
  EXPECT_EQ(client.queue_pair().poll_link(), std::nullopt);
  EXPECT_EQ(server.queue_pair().poll_link(), std::nullopt);
}

TEST_P(ConnectionSetUp, CapabilitiesAreUsable) {
  connect(client, server);
  for (End* end : {&client, &server}) {
    const rdma::Capabilities& can = end->queue_pair().capabilities();
    EXPECT_GE(can.queue_depth_max, 64U);
    EXPECT_GE(can.reads_in_flight_max, 1U);
    EXPECT_GE(can.sge_max, 4U);
    EXPECT_LE(can.sge_max, work::kSlicesMax);
  }
}

TEST_P(ConnectionSetUp, ConnectingWhereNobodyListensIsRefused) {
  auto connecting = fabric->client().connect(fabric->dead_address(), {});
  if (!connecting.has_value()) {  // Known at once: as good.
    EXPECT_EQ(connecting.error().code, Errc::kRefused);
    return;
  }
  client.start(std::move(*connecting));
  ASSERT_TRUE(client.post(1, work::Receive{}).has_value());
  EXPECT_EQ(next_link_event(client), LinkEvent::kRefused);
  const rdma::Error cause = client.queue_pair().cause();
  EXPECT_EQ(cause.code, Errc::kRefused) << cause.operation << ' ' << cause.provider_code;
  EXPECT_EQ(next(client).status, rdma::Status::kFlushed);
  EXPECT_EQ(client.post(2, work::Receive{}).error().code, Errc::kClosed);
}

TEST_P(ConnectionSetUp, DestroyingTheRequestRefusesIt) {
  auto connecting = fabric->client().connect(listener->address(), {});
  ASSERT_TRUE(connecting.has_value());
  client.start(std::move(*connecting));
  std::unique_ptr<rdma::Incoming> incoming;
  ASSERT_TRUE(pump_until([&] { return (incoming = listener->poll_incoming()) != nullptr; }));
  incoming.reset();
  EXPECT_EQ(next_link_event(client), LinkEvent::kRefused);
  EXPECT_EQ(client.queue_pair().cause().code, Errc::kRefused);
}

TEST_P(ConnectionSetUp, DestroyingTheInitiatorBeforeTheAnswerEndsTheOtherSide) {
  auto connecting = fabric->client().connect(listener->address(), {});
  ASSERT_TRUE(connecting.has_value());
  std::unique_ptr<rdma::Incoming> incoming;
  ASSERT_TRUE(pump_until([&] { return (incoming = listener->poll_incoming()) != nullptr; }));
  connecting->reset();
  auto accepted = fabric->server().accept(std::move(incoming), {});
  if (!accepted.has_value()) return;  // It has noticed already.
  server.start(std::move(*accepted));
  std::optional<LinkEvent> last;
  EXPECT_TRUE(pump_until([&] {
    if (const auto event = server.queue_pair().poll_link()) last = event;
    return last == LinkEvent::kDisconnected || last == LinkEvent::kRefused;
  }));
}

TEST_P(ConnectionSetUp, BadAddressesAreRefusedAtOnce) {
  for (const auto* address : {"", "nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http"}) {
    EXPECT_EQ(fabric->client().connect(address, {}).error().code, Errc::kBadAddress) << address;
    EXPECT_EQ(fabric->server().listen(address).error().code, Errc::kBadAddress) << address;
  }
}

TEST_P(ConnectionSetUp, SeveralConnectionsOfOneListenerAreApart) {
  End client2;
  End server2;
  connect(client, server);
  connect(client2, server2);
  ASSERT_TRUE(server.post(1, work::Receive{}).has_value());
  ASSERT_TRUE(server2.post(2, work::Receive{}).has_value());
  ASSERT_TRUE(client2.post(3, work::Send{}).has_value());
  EXPECT_EQ(next(server2).id, 2U);
  EXPECT_EQ(server.poll(), std::nullopt);
  client2.queue_pair().disconnect();
  expect_disconnected(client2, server2);
  EXPECT_EQ(client.queue_pair().poll_link(), std::nullopt);
  ASSERT_TRUE(client.post(4, work::Send{}).has_value());
  EXPECT_EQ(next(server).status, rdma::Status::kOk);
}

}  // namespace
}  // namespace rpcrdma::test
