// A host that has all connections of a server leaves some to others.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma/siwarp/provider.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/descriptors.h"
#include "support/forwarding_provider.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "tcp/record.h"

namespace rpcrdma::test {
namespace {

constexpr std::string_view kFirstHost = "127.0.0.1", kOtherHost = "127.0.0.2";

// Has the server listen at further addresses with each call.
class ListeningService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{};
    return &kAny;
  }
  void call(CallContext& context) override {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(server->add_listener(url));
    context.succeed();
  }

  Server* server = nullptr;
  std::string url = "tcp://127.0.0.1:0";
};

// Has room for so many connections, and may leave them unconfirmed for good.
class SmallDevice final : public ForwardingProvider {
 public:
  SmallDevice(std::unique_ptr<rdma::Provider> inner, std::size_t places, bool confirms)
      : ForwardingProvider(*inner), owned_(std::move(inner)), left_(places), confirms_(confirms) {}
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> accept(
      std::unique_ptr<rdma::Incoming> request, Bytes private_data) override {
    if (left_ > 0) return ForwardingProvider::accept(std::move(request), private_data);
    return Unexpected<rdma::Error>(rdma::Error{rdma::Errc::kNoResources, ENOMEM, "the test's"});
  }

 private:
  class Place final : public ForwardingQueuePair {
   public:
    Place(std::unique_ptr<rdma::QueuePair> inner, SmallDevice& device)
        : ForwardingQueuePair(std::move(inner)), device_(device) {
      --device_.left_;
    }
    ~Place() override { ++device_.left_; }
    std::optional<rdma::LinkEvent> poll_link() override {
      const auto event = ForwardingQueuePair::poll_link();
      return device_.confirms_ || event != rdma::LinkEvent::kConnected ? event : std::nullopt;
    }

   private:
    SmallDevice& device_;
  };
  std::unique_ptr<rdma::QueuePair> wrap(std::unique_ptr<rdma::QueuePair> inner) override {
    return std::make_unique<Place>(std::move(inner), *this);
  }

  const std::unique_ptr<rdma::Provider> owned_;
  std::size_t left_;
  const bool confirms_;
};

class HostileHost : public ::testing::Test {
 protected:
  void start(std::size_t connections_max, Service* other = nullptr) {
    server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", options_for(connections_max))));
    tcp_address = server->add_listener("tcp://127.0.0.1:0").value();
    Service& of_calls = other != nullptr ? *other : service;
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, of_calls));
  }
  // Listens over a device of its own.
  void start_over(std::size_t connections_max, std::size_t places, bool confirms) {
    auto device =
        std::make_unique<SmallDevice>(rdma::siwarp::make_provider({}).value(), places, confirms);
    server.emplace(
        std::move(*Server::listen(std::move(device), "127.0.0.1:0", options_for(connections_max))));
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  }
  ServerOptions options_for(std::size_t connections_max) {
    ServerOptions options;
    options.provider.name = "siwarp";
    options.connections_max = options.tcp.connections_max = connections_max;
    options.on_connection = [this](const ConnectionEvent& event) {
      if (event.kind == ConnectionEvent::Kind::kRefused) ++refused, refusal = *event.error;
      if (event.kind == ConnectionEvent::Kind::kEnded) ++ended;
    };
    return options;
  }
  ~HostileHost() override {
    for (CallContext* context : service.held) context->succeed();
  }
  std::unique_ptr<RawPeer> connect(std::string_view address, std::string_view from) {
    auto peer = RawPeer::connect(
        address, [this] { server->progress(); }, from);
    EXPECT_NE(peer, nullptr);
    return peer;
  }
  // Connects over TCP and makes a call; null: the connection was refused.
  std::unique_ptr<RawPeer> connect_tcp(std::string_view from) {
    auto peer = connect(tcp_address, from);
    return is_served(*peer) ? std::move(peer) : nullptr;
  }
  static bool is_served(RawPeer& peer) {
    // Not NULL: connections that have made no other call make room for anybody.
    const Message call = raw_call(1, TestService::kGarbage);
    const tcp::RecordMark mark = tcp::mark_of(call.size());
    return peer.send(join({Message(mark.begin(), mark.end()), call})) &&
           peer.receive(28).size() == 28;
  }
  // Sets RDMA up; null: it was refused.
  std::unique_ptr<RawPeer> connect_rdma(std::string_view from) {
    auto peer = connect(server->address(), from);
    EXPECT_TRUE(peer->send(raw_mpa_frame(false, {})));
    const Message reply = peer->receive_mpa_frame();
    constexpr std::byte kRejected{0x20};  // the R bit, RFC 5044 §7.1
    const bool is_up = reply.size() > 16 && (reply[16] & kRejected) == std::byte{0};
    return is_up ? std::move(peer) : nullptr;
  }

  // The first host takes so many places.
  std::vector<std::unique_ptr<RawPeer>> connect_all_rdma(int count) {
    std::vector<std::unique_ptr<RawPeer>> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(connect_rdma(kFirstHost));
      EXPECT_NE(all.back(), nullptr);
    }
    return all;
  }

  // Tries until it is served.
  static std::unique_ptr<RawPeer> connect_in_time(
      const std::function<std::unique_ptr<RawPeer>()>& attempt) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::unique_ptr<RawPeer> peer;
    while (!peer && std::chrono::steady_clock::now() < limit) peer = attempt();
    EXPECT_NE(peer, nullptr) << "it was never served";
    return peer;
  }

  TestService service;
  std::optional<Server> server;
  std::string tcp_address;
  std::size_t refused = 0, ended = 0;
  Error refusal;  // the last one
};

TEST_F(HostileHost, LeavesIdleConnectionsOverTcpToOthersUntilTheyHaveAsMany) {
  start(4);
  std::vector<std::unique_ptr<RawPeer>> first, other;
  for (int i = 0; i < 4; ++i) {
    first.push_back(connect_tcp(kFirstHost));
    ASSERT_NE(first.back(), nullptr);
  }
  EXPECT_EQ(connect_tcp(kFirstHost), nullptr) << "it has all of them already";
  EXPECT_EQ(ended, 0U);
  // One a second, so that the second one may be refused for a while.
  for (int i = 0; i < 2; ++i)
    other.push_back(connect_in_time([this] { return connect_tcp(kOtherHost); }));
  EXPECT_EQ(connect_tcp(kOtherHost), nullptr) << "each host has two";
  EXPECT_TRUE(first[0]->receive_to_end()) << "its last call came longest ago";
  EXPECT_TRUE(first[1]->receive_to_end());
  EXPECT_TRUE(is_served(*first[2]));
  EXPECT_TRUE(is_served(*first[3]));
  EXPECT_TRUE(is_served(*other[0]));
}

// Else it would keep all of them by a byte now and then.
TEST_F(HostileHost, LeavesConnectionsOnWhichItHasBegunARecord) {
  start(2);
  std::vector<std::unique_ptr<RawPeer>> first;
  for (int i = 0; i < 2; ++i) {
    first.push_back(connect_tcp(kFirstHost));
    ASSERT_NE(first.back(), nullptr);
    const tcp::RecordMark mark = tcp::mark_of(100);
    ASSERT_TRUE(first.back()->send(Message(mark.begin(), mark.begin() + 1)));
  }
  const auto other = connect_in_time([this] { return connect_tcp(kOtherHost); });
  EXPECT_TRUE(first[0]->receive_to_end()) << "its last call came longest ago";
  EXPECT_EQ(connect_tcp(kOtherHost), nullptr) << "each host has one";
}

// However long it was quiet before: its bytes may be on their way.
TEST_F(HostileHost, KeepsConnectionsOnWhichARecordHasJustBegun) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kLeft{1};  // for longer a record may not be left
  start(2);
  const Message call = raw_call(1, TestService::kGarbage);
  const tcp::RecordMark mark = tcp::mark_of(call.size());
  // On a machine that stands still for as long, the attempt shows nothing.
  bool is_in_time = false;
  for (int attempts = 0; attempts < 10 && !is_in_time; ++attempts) {
    std::vector<std::unique_ptr<RawPeer>> first;
    for (int i = 0; i < 2; ++i) {
      first.push_back(connect_in_time([this] { return connect_tcp(kFirstHost); }));
    }
    const Clock::time_point quiet_until = Clock::now() + kLeft + std::chrono::milliseconds(100);
    ASSERT_TRUE(first[0]->pump_until([&] { return Clock::now() >= quiet_until; }));
    const std::size_t ended_before = ended;
    const Clock::time_point begun = Clock::now();
    for (const auto& each : first) {
      ASSERT_TRUE(each->send(Message(mark.begin(), mark.end())));
    }
    const auto other = connect_tcp(kOtherHost);
    is_in_time = Clock::now() - begun < kLeft;
    if (!is_in_time) continue;
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(ended, ended_before);
    for (const auto& each : first) {
      ASSERT_TRUE(each->send(call));
      EXPECT_EQ(each->receive(28).size(), 28U);
    }
  }
  EXPECT_TRUE(is_in_time) << "the machine stood still each time";
}

// Where there is no room, calls have their turn while the listeners are looked at.
TEST_F(HostileHost, ServiceMayAddListenersWhileThereIsNoRoom) {
  ListeningService listening;
  start(1, &listening);
  listening.server = &*server;
  const auto first = connect(tcp_address, kFirstHost);
  ASSERT_TRUE(is_served(*first));
  const Message call = raw_call(2, TestService::kGarbage);
  const tcp::RecordMark mark = tcp::mark_of(call.size());
  ASSERT_TRUE(first->send(join({Message(mark.begin(), mark.end()), call})));
  const auto second = connect(tcp_address, kFirstHost);
  EXPECT_TRUE(second->receive_to_end()) << "it is refused";
  EXPECT_EQ(first->receive(28).size(), 28U);
}

TEST_F(HostileHost, ServiceMayAddRdmaListenersWhileThereIsNoRoom) {
  ListeningService listening;
  listening.url = "rdma://127.0.0.1:0";
  start(1, &listening);
  listening.server = &*server;
  auto first = Client::begin_connect("rdma://" + std::string(server->address()));
  ASSERT_TRUE(first) << first.error().message();
  while (!first->connected() && !first->ended()) {
    server->progress();
    first->progress();
  }
  const auto second = connect(server->address(), kFirstHost);
  auto call = first->prepare({TestService::kProgram, TestService::kVersion, TestService::kGarbage});
  ASSERT_TRUE(call) << call.error().message();
  std::optional<bool> is_answered;
  ASSERT_TRUE(first->start(std::move(*call), [&](const Expected<Reply, Error>& reply) {
    is_answered = reply.has_value();
  }));
  ASSERT_TRUE(second->send(raw_mpa_frame(false, {})));
  EXPECT_TRUE(second->pump_until([&] {
    first->progress();
    return is_answered.has_value();
  }));
  EXPECT_EQ(is_answered, true);
}

// A client that connects again needs no room beside its old connection.
TEST_F(HostileHost, ConnectionThatHasEndedIsNoneWhenTheNextOneComes) {
  start(1);
  auto first = connect_tcp(kFirstHost);
  ASSERT_NE(first, nullptr);
  for (int i = 0; i < 10; ++i) {
    if (i % 2 == 0) {
      first->finish();
    } else {
      first->reset();
    }
    first = connect_tcp(kFirstHost);  // the server has not looked in between
    ASSERT_NE(first, nullptr) << i;
  }
  EXPECT_EQ(refused, 0U);
}

TEST_F(HostileHost, KeepsConnectionsOverTcpOnWhichCallsAreUnderWay) {
  start(2);
  std::vector<std::unique_ptr<RawPeer>> busy;
  for (std::uint32_t i = 0; i < 2; ++i) {
    busy.push_back(connect(tcp_address, kFirstHost));
    const Message call = raw_call(i, TestService::kHold);
    const tcp::RecordMark mark = tcp::mark_of(call.size());
    ASSERT_TRUE(busy[i]->send(join({Message(mark.begin(), mark.end()), call})));
    ASSERT_TRUE(busy[i]->pump_until([&] { return service.held.size() == i + 1; }));
  }
  EXPECT_EQ(connect_tcp(kOtherHost), nullptr);
  EXPECT_EQ(ended, 0U);
}

// Each connection has a Call under way, whose chunk the host does not let the server read.
TEST_F(HostileHost, LeavesRdmaConnectionsWhoseCallsItDoesNotGoOnWith) {
  start(2);
  std::vector<std::unique_ptr<RawTalk>> first;
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto peer = connect(server->address(), kFirstHost);
    ASSERT_FALSE(peer->initiate(RawTalk::mpa(true)).empty());
    first.push_back(std::make_unique<RawTalk>(std::move(peer), true));
    constexpr std::uint32_t kNoMessage = 1;
    const Message chunk = words({1, 0, 0x4711, 100, 0, 0x1000, 0, 0, 0});
    ASSERT_TRUE(first[i]->send(join({raw_header(i, kNoMessage), chunk})));
    ASSERT_TRUE(first[i]->next()) << "the server asks for the chunk";
  }
  const auto other = connect_in_time([this] { return connect_rdma(kOtherHost); });
  EXPECT_NE(other, nullptr);
  ASSERT_TRUE(first[0]->peer().pump_until([this] { return ended == 1; }));
}

TEST_F(HostileHost, KeepsRdmaConnectionsOnWhichCallsAreUnderWay) {
  start(2);
  std::vector<std::unique_ptr<RawTalk>> busy;
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto peer = connect(server->address(), kFirstHost);
    ASSERT_FALSE(peer->initiate(RawTalk::mpa(true)).empty());
    busy.push_back(std::make_unique<RawTalk>(std::move(peer), true));
    ASSERT_TRUE(busy[i]->send(join({raw_header(i, 0), kNoLists, raw_call(i, TestService::kHold)})));
    ASSERT_TRUE(busy[i]->peer().pump_until([&] { return service.held.size() == i + 1; }));
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point later = Clock::now() + std::chrono::milliseconds(1'100);
  ASSERT_TRUE(busy[0]->peer().pump_until([&] { return Clock::now() >= later; }));
  EXPECT_EQ(connect_rdma(kOtherHost), nullptr);
  EXPECT_EQ(ended, 0U);
}

TEST_F(HostileHost, LeavesAnIdleRdmaConnectionToAnother) {
  start(3);
  const auto first = connect_all_rdma(3);
  EXPECT_EQ(connect_rdma(kFirstHost), nullptr);
  EXPECT_EQ(ended, 0U) << "it has all of them already";
  const auto other = connect_rdma(kOtherHost);
  EXPECT_NE(other, nullptr);
  ASSERT_TRUE(first[0]->pump_until([this] { return ended == 1; }));
  EXPECT_EQ(connect_rdma(kOtherHost), nullptr) << "no host has so many more";
  EXPECT_EQ(ended, 1U);
}

// A device whose peers have not confirmed the set-up has given them their places.
TEST_F(HostileHost, LeavesAnRdmaConnectionThatItHasNotConfirmed) {
  start_over(3, 100, false);
  const auto first = connect_all_rdma(3);
  const auto other = connect_rdma(kOtherHost);
  EXPECT_NE(other, nullptr);
  ASSERT_TRUE(first[0]->pump_until([this] { return ended == 1; }));
}

// Queue pairs and memory that may be locked are often fewer than the connections that may be.
TEST_F(HostileHost, LeavesAnRdmaConnectionWhereTheDeviceHasNoMore) {
  start_over(100, 3, true);
  const auto first = connect_all_rdma(3);
  EXPECT_EQ(connect_rdma(kFirstHost), nullptr);
  EXPECT_EQ(ended, 0U) << "it has all of them already";
  const auto other = connect_in_time([this] { return connect_rdma(kOtherHost); });
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(ended, 1U);
}

TEST_F(HostileHost, LeavesConnectionsWhereThereAreNoDescriptors) {
  start(100);
  std::vector<std::unique_ptr<RawPeer>> first;
  const auto fill = [&](int over_rdma, int over_tcp) {
    for (int i = 0; i < over_rdma; ++i) first.push_back(connect_rdma(kFirstHost));
    for (int i = 0; i < over_tcp; ++i) first.push_back(connect_tcp(kFirstHost));
  };
  const auto connect_without_descriptors = [this](std::string_view address) {
    const std::size_t ended_before = ended;
    descriptors_left = 0;
    auto waits = connect(address, kOtherHost);
    EXPECT_TRUE(waits->pump_until([&] { return ended > ended_before; }));
    descriptors_left = kManyDescriptors;
    return waits;
  };
  // Over the transport over which it has most.
  fill(3, 2);
  const auto over_tcp = connect_without_descriptors(tcp_address);
  EXPECT_TRUE(is_served(*over_tcp));
  for (std::size_t i = 3; i < 5; ++i) EXPECT_TRUE(is_served(*first[i]));
  fill(0, 2);
  const auto over_rdma = connect_without_descriptors(server->address());
  EXPECT_FALSE(over_rdma->initiate(RawTalk::mpa(true)).empty());
  EXPECT_TRUE(first[3]->receive_to_end()) << "its last call came longest ago";
  EXPECT_EQ(ended, 2U);
}

// Room would not help those who come.
TEST_F(HostileHost, LeavesNoneWhereAListeningSocketWasShutDown) {
  start(100);
  std::vector<std::unique_ptr<RawPeer>> first;
  for (int i = 0; i < 3; ++i) first.push_back(connect_rdma(kFirstHost));
  for (int i = 0; i < 3; ++i) first.push_back(connect_tcp(kFirstHost));
  for (const int fd : listening_descriptors()) ASSERT_EQ(::shutdown(fd, SHUT_RDWR), 0);
  ASSERT_TRUE(first[0]->pump_until([this] { return refused >= 2; })) << "it is reported";
  for (int i = 0; i < 100; ++i) server->progress();
  EXPECT_EQ(ended, 0U);
  EXPECT_NE(refusal.cause.find("shut the listening socket down"), std::string::npos)
      << refusal.message();
}

TEST_F(HostileHost, LeavesNoneWhereTheLastDescriptorWasEnough) {
  start(100);
  std::vector<std::unique_ptr<RawPeer>> first;
  for (int i = 0; i < 3; ++i) first.push_back(connect_tcp(kFirstHost));
  for (const bool is_tcp : {false, true}) {
    descriptors_left = 1;
    first.push_back(is_tcp ? connect_tcp(kOtherHost) : connect_rdma(kOtherHost));
    EXPECT_NE(first.back(), nullptr) << is_tcp;
    for (int i = 0; i < 100; ++i) server->progress();
    descriptors_left = kManyDescriptors;
  }
  EXPECT_EQ(refused, 0U);
  EXPECT_EQ(ended, 0U);
}

}  // namespace
}  // namespace rpcrdma::test
