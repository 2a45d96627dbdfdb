// How connections begin over real sockets, and how peers fail to.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <utility>

#include "posix/address.h"
#include "posix/fd.h"
#include "rdma/siwarp/nodes_for_test.h"
#include "support/descriptors.h"
#include "support/hex.h"
#include "support/raw_peer.h"

namespace {

// While it is positive, each recv(2) of this program finds as much as it has room for.
std::atomic<int> flooded_receives = 0;

}  // namespace

extern "C" ssize_t recv(int socket, void* data, std::size_t size, int flags) {
  if (flooded_receives > 0) {
    --flooded_receives;
    return static_cast<ssize_t>(size);
  }
  return ::syscall(SYS_recvfrom, socket, data, size, flags, nullptr, nullptr);
}

namespace rpcrdma::rdma::siwarp::test {
namespace {

using rpcrdma::test::descriptors_left;
using rpcrdma::test::hex;
using rpcrdma::test::kManyDescriptors;
using rpcrdma::test::listening_descriptors;
using rpcrdma::test::raw_fpdu;
using rpcrdma::test::raw_mpa_frame;
using rpcrdma::test::raw_send;
using rpcrdma::test::RawListener;
using rpcrdma::test::RawMpa;
using rpcrdma::test::RawPeer;
using std::chrono::milliseconds;

// Returns how many times the server's loop wakes up within 30 ms.
int rounds_of(Nodes& nodes) {
  const Instant end = nodes.server_provider->now() + milliseconds(30);
  nodes.server_provider->arm_timer(end);
  int rounds = 0;
  for (; nodes.server_provider->now() < end; ++rounds) {
    nodes.server_provider->wait();
    nodes.server_provider->progress();
  }
  return rounds;
}

// Returns the two ends of a TCP connection over loopback. The first has little room for what it
// sends, as the second has for what it receives, and the system makes no more.
std::pair<int, int> tcp_connection() {
  constexpr int kRoom = 4096;
  const posix::Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
  posix::Address address = *posix::parse_address("127.0.0.1:0");
  EXPECT_EQ(::setsockopt(listener.value(), SOL_SOCKET, SO_RCVBUF, &kRoom, sizeof(kRoom)), 0);
  EXPECT_EQ(::bind(listener.value(), address.pointer(), address.size), 0);
  EXPECT_EQ(::listen(listener.value(), 1), 0);
  EXPECT_EQ(::getsockname(listener.value(), address.pointer(), &address.size), 0);
  const int active = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::setsockopt(active, SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof(kRoom)), 0);
  EXPECT_EQ(::connect(active, address.pointer(), address.size), 0);
  return {active, ::accept(listener.value(), nullptr, nullptr)};
}

TEST(SiwarpSetup, EveryMixOfOptionsWorks) {
  for (int mix = 0; mix < 64; ++mix) {
    SCOPED_TRACE(mix);
    Options left;
    Options right;
    left.crc = (mix & 1) != 0;
    right.crc = (mix & 2) != 0;
    left.mpa_revision = (mix & 4) != 0 ? 1 : 2;
    left.peer_to_peer = (mix & 8) != 0 ? PeerToPeer::kWrite : PeerToPeer::kOff;
    if ((mix & 24) == 24) left.peer_to_peer = PeerToPeer::kRead;
    if ((mix & 32) != 0) left.peer_to_peer = PeerToPeer::kSend;
    left.segment_size_max = (mix & 16) != 0 ? 1000 : 0;
    Nodes nodes(left, right);
    End client;
    End server;
    const Buffer ask = hex("0102030405");
    nodes.connect(client, server, ask, hex("a1a2a3"));
    EXPECT_TRUE(std::ranges::equal(server.queue_pair->peer_private_data(), ask));
    EXPECT_TRUE(std::ranges::equal(client.queue_pair->peer_private_data(), hex("a1a2a3")));
    nodes.say(client, server);
    nodes.say(server, client);
  }
}

// Its connection would keep its place for a quarter of an hour.
TEST(SiwarpSetup, PeerThatVanishesWithBytesUnderWayIsNoticedWithinAMinute) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  int ends = 0;
  for (int fd = 0; fd < 256; ++fd) {
    posix::Address peer;
    peer.size = sizeof(peer.storage);
    int unanswered_ms = 0;
    socklen_t size = sizeof(unanswered_ms);
    if (::getpeername(fd, peer.pointer(), &peer.size) != 0 ||
        ::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, &size) != 0) {
      continue;
    }
    ++ends;
    EXPECT_EQ(unanswered_ms, 60'000);
  }
  EXPECT_EQ(ends, 2);
}

TEST(SiwarpSetup, AgreesOnReadsInFlight) {
  Options left;
  Options right;
  left.ird = 3;
  left.ord = 9;
  right.ird = 5;
  right.ord = 7;
  Nodes nodes(left, right);
  End client;
  End server;
  nodes.connect(client, server);
  EXPECT_EQ(client.queue_pair->capabilities().reads_in_flight_max, 5U);
  EXPECT_EQ(server.queue_pair->capabilities().reads_in_flight_max, 3U);
}

TEST(SiwarpSetup, IncomingThatIsDroppedIsRefused) {
  Nodes nodes;
  End client;
  client.start(std::move(*nodes.client_provider->connect(nodes.listener->address(), {})));
  ASSERT_NE(nodes.incoming(), nullptr);  // and gone
  EXPECT_EQ(nodes.event(client), LinkEvent::kRefused);
  EXPECT_EQ(client.queue_pair->cause().code, Errc::kRefused);
  EXPECT_EQ(client.queue_pair->cause().operation, "peer rejected the connection");
}

TEST(SiwarpSetup, IncomingThatAChildDropsStaysItsParents) {
  Nodes nodes;
  End client, server;
  client.start(std::move(*nodes.client_provider->connect(nodes.listener->address(), {})));
  auto incoming = nodes.incoming();
  ASSERT_NE(incoming, nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    incoming.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  server.start(std::move(*nodes.server_provider->accept(std::move(incoming), {})));
  EXPECT_EQ(nodes.event(client), LinkEvent::kConnected);
  EXPECT_EQ(nodes.event(server), LinkEvent::kConnected);
  nodes.say(client, server);
}

TEST(SiwarpSetup, NobodyListens) {
  Nodes nodes;
  End client;
  client.start(std::move(*nodes.client_provider->connect("127.0.0.1:1", {})));
  ASSERT_TRUE(client.post(5, Receive{}));
  EXPECT_EQ(nodes.event(client), LinkEvent::kRefused);
  EXPECT_EQ(client.queue_pair->cause().provider_code, ECONNREFUSED);
  EXPECT_EQ(client.poll()->status, Status::kFlushed);
}

TEST(SiwarpSetup, OptionsOutOfRangeAreRefused) {
  Options options;
  options.mpa_revision = 3;
  EXPECT_EQ(make_provider(options).error().code, Errc::kUnsupported);
  options = {};
  options.segment_size_max = 65'521;
  EXPECT_EQ(make_provider(options).error().code, Errc::kUnsupported);
  options = {};
  options.capture_file = "/nonexistent/directory/file";
  EXPECT_EQ(make_provider(options).error().code, Errc::kProvider);
}

TEST(SiwarpSetup, TooMuchPrivateDataIsRefused) {
  Nodes nodes;
  const Buffer much(509);
  EXPECT_EQ(nodes.client_provider->connect(nodes.listener->address(), much).error().code,
            Errc::kUnsupported);
  End client;
  client.start(std::move(*nodes.client_provider->connect(nodes.listener->address(), {})));
  EXPECT_EQ(nodes.server_provider->accept(nodes.incoming(), much).error().code, Errc::kUnsupported);
  EXPECT_EQ(nodes.event(client), LinkEvent::kRefused);
}

TEST(SiwarpSetup, SilentPeerIsDroppedWithinItsTime) {
  Options options;
  options.setup_timeout_responder = milliseconds(30);
  Nodes nodes({}, options);
  const auto pump = [&] { nodes.pump(); };
  const Buffer whole = raw_mpa_frame(false, {});
  for (const std::size_t size : {std::size_t{0}, std::size_t{19}, whole.size() - 1}) {
    const auto peer = RawPeer::connect(nodes.listener->address(), pump);
    ASSERT_NE(peer, nullptr);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(peer->send(Bytes(whole).first(size)));
    EXPECT_TRUE(peer->receive_to_end().has_value());
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(25));
  }
  EXPECT_EQ(setup_counters(*nodes.server_provider).timed_out, 3U);
  EXPECT_EQ(setup_counters(*nodes.server_provider).presented, 0U);
  EXPECT_EQ(nodes.listener->poll_incoming(), nullptr);
}

// A server that has taken over a connection whose peer takes no bytes any more.
struct FullConnection {
  explicit FullConnection(Bytes said) : nodes({}, options()) {
    const auto [made, peers] = tcp_connection();
    ours = made;
    peer = std::make_unique<RawPeer>(peers, [&] { nodes.pump(); });
    EXPECT_TRUE(peer->send(said));
    const Buffer words(100'000);
    const auto takes = [&](std::size_t size) {
      return ::send(ours, words.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
    };
    for (pollfd writable{ours, POLLOUT, 0}; ::poll(&writable, 1, 20) > 0 || takes(1);) {
      while (takes(words.size()) || takes(1)) {
      }
    }
    EXPECT_TRUE(nodes.listener->adopt(ours));
    auto incoming = nodes.incoming();
    EXPECT_NE(incoming, nullptr);
    if (incoming == nullptr) return;
    server.start(std::move(*nodes.server_provider->accept(std::move(incoming), {})));
  }
  static Options options() {
    Options made;
    made.setup_timeout_responder = milliseconds(30);
    made.socket_buffer_size = 0;  // as the system has it
    made.spin = std::chrono::microseconds(0);
    return made;
  }

  int ours = -1;
  Nodes nodes;
  std::unique_ptr<RawPeer> peer;
  End server;
};

TEST(SiwarpSetup, PeerThatDoesNotTakeTheReplyIsDroppedWithinItsTime) {
  FullConnection full(raw_mpa_frame(false, {}));
  EXPECT_EQ(full.nodes.event(full.server), LinkEvent::kRefused);
  EXPECT_EQ(full.server.queue_pair->cause().code, Errc::kTimedOut);
}

TEST(SiwarpSetup, BytesBehindTheRequestWakeNobodyUntilTheReplyHasGone) {
  Buffer said = raw_mpa_frame(false, {});
  said.push_back(std::byte{0});
  FullConnection full(said);
  int rounds = 0;
  while (!full.server.queue_pair->poll_link()) {
    full.nodes.server_provider->progress();
    full.nodes.server_provider->wait();
    ++rounds;
  }
  EXPECT_LT(rounds, 20);
  EXPECT_EQ(full.server.queue_pair->cause().code, Errc::kTimedOut);
}

TEST(SiwarpSetup, PeerThatEndsInsideOfAnFpduHasNotClosedInOrder) {
  for (const bool is_whole : {true, false}) {
    Nodes nodes;
    const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
    ASSERT_TRUE(peer->send(raw_mpa_frame(false, {})));
    End server;
    server.start(std::move(*nodes.server_provider->accept(nodes.incoming(), {})));
    ASSERT_EQ(nodes.event(server), LinkEvent::kConnected);
    if (!is_whole) {
      ASSERT_TRUE(peer->send(hex("0020 4143")));
    }
    peer->finish();
    EXPECT_EQ(nodes.event(server), LinkEvent::kDisconnected);
    EXPECT_EQ(server.queue_pair->cause().code, Errc::kClosed);
    EXPECT_EQ(server.queue_pair->cause().provider_code, is_whole ? 0 : EPROTO);
  }
}

TEST(SiwarpSetup, SilentResponderTimesOut) {
  Options options;
  options.setup_timeout_initiator = milliseconds(30);
  Nodes nodes(options);
  RawListener listener([&] { nodes.pump(); });
  End client;
  client.start(std::move(*nodes.client_provider->connect(listener.address(), {})));
  EXPECT_EQ(nodes.event(client), LinkEvent::kRefused);
  EXPECT_EQ(client.queue_pair->cause().code, Errc::kTimedOut);
}

TEST(SiwarpSetup, GarbageIsDroppedAtOnce) {
  Nodes nodes;
  const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  ASSERT_TRUE(peer->send(hex("474554202f20485454502f312e310d0a0d0a")));  // "GET / HTTP/1.1"
  EXPECT_TRUE(peer->receive_to_end().has_value());
  EXPECT_EQ(setup_counters(*nodes.server_provider).malformed, 1U);
  End client;
  End server;
  nodes.connect(client, server);  // and everybody else is served
}

TEST(SiwarpSetup, RequestCutAnywhereIsPutTogether) {
  Nodes nodes;
  const Buffer whole = raw_mpa_frame(false, {});
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
    ASSERT_TRUE(peer->send(Bytes(whole).first(cut)));
    nodes.pump();
    EXPECT_EQ(nodes.listener->poll_incoming(), nullptr);
    ASSERT_TRUE(peer->send(Bytes(whole).subspan(cut)));
    EXPECT_NE(nodes.incoming(), nullptr) << cut;
  }
}

TEST(SiwarpSetup, PeerThatEndsAnywhereIsForgotten) {
  Nodes nodes;
  const Buffer whole = raw_mpa_frame(false, {});
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
    ASSERT_TRUE(peer->send(Bytes(whole).first(cut)));
    cut % 2 == 0 ? peer->finish() : peer->reset();
    EXPECT_TRUE(nodes.pump_until(
        [&] { return setup_counters(*nodes.server_provider).malformed == cut + 1; }));
  }
}

TEST(SiwarpSetup, MarkersAreRefusedWithAReply) {
  Nodes nodes;
  const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  RawMpa mpa;
  mpa.markers = true;
  EXPECT_EQ(peer->initiate(mpa), hex("4d504120494420526570204672616d65 70 02 0004 0000 0000"));
  EXPECT_TRUE(peer->receive_to_end()->empty());
}

TEST(SiwarpSetup, TooManyHalfOpenConnectionsGiveWay) {
  Options options;
  options.half_open_max = 4;
  Nodes nodes({}, options);
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 12; ++i) {
    silent.push_back(RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); }));
    nodes.pump();
  }
  EXPECT_TRUE(
      nodes.pump_until([&] { return setup_counters(*nodes.server_provider).evicted == 8; }));
  End client;
  End server;
  nodes.connect(client, server);
}

TEST(SiwarpSetup, HalfOpenConnectionsOfOneListenerLeaveRoomForAnother) {
  Options options;
  options.half_open_max = 2;
  Nodes nodes({}, options);
  const auto other = std::move(*nodes.server_provider->listen("127.0.0.1:0"));
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 2; ++i) {
    silent.push_back(RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); }));
    nodes.pump();
  }
  const auto honest = RawPeer::connect(other->address(), [&] { nodes.pump(); });
  nodes.pump();  // which accepts it before it says anything
  ASSERT_TRUE(honest->send(raw_mpa_frame(false, {})));
  EXPECT_TRUE(nodes.pump_until([&] { return other->poll_incoming() != nullptr; }));
  EXPECT_TRUE(silent[0]->receive_to_end()) << "the oldest has not made room";
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// They are refused, and closed when they have read why, or when others need their descriptors.
TEST(SiwarpSetup, PeersThatSaySomethingElseTakeFewDescriptors) {
  constexpr std::size_t kPeers = 40;
  Options options;
  options.lingering_max = 4;
  Nodes nodes({}, options);
  const std::size_t before = open_descriptors();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); }));
    ASSERT_TRUE(peers.back()->send(hex("47")));
  }
  ASSERT_TRUE(
      nodes.pump_until([&] { return setup_counters(*nodes.server_provider).malformed == kPeers; }));
  EXPECT_LE(open_descriptors(), before + kPeers + options.lingering_max);
  End client;
  End server;
  nodes.connect(client, server);
}

// Returns one that does not close: the connection lingers.
std::unique_ptr<RawPeer> refused_peer(Nodes& nodes) {
  auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  EXPECT_TRUE(peer->send(hex("47")));
  EXPECT_TRUE(
      nodes.pump_until([&] { return setup_counters(*nodes.server_provider).malformed == 1; }));
  return peer;
}

TEST(SiwarpSetup, RefusedPeerThatSendsWithoutEndHoldsUpNobody) {
  constexpr int kMany = 10'000;
  Nodes nodes;
  const auto refused = refused_peer(nodes);
  ASSERT_TRUE(refused->send(hex("48")));
  flooded_receives = kMany;
  nodes.pump();
  const int left = flooded_receives.exchange(0);
  EXPECT_LT(left, kMany) << "its bytes were read";
  EXPECT_GT(left, kMany - 1000) << "others had their turn";
}

// Otherwise its peer keeps the descriptor for `linger`, while another connection waits for one.
TEST(SiwarpSetup, ConnectionThatIsOverGivesItsDescriptorToOneThatComes) {
  Nodes nodes;
  const auto refused = refused_peer(nodes);
  const auto next = RawPeer::connect(nodes.listener->address(), {});  // in the backlog
  const std::size_t before = open_descriptors();
  descriptors_left = 0;
  ASSERT_TRUE(nodes.pump_until([&] { return nodes.listener->poll_refusal().has_value(); }));
  descriptors_left = kManyDescriptors;
  EXPECT_EQ(open_descriptors(), before - 1);
}

// The system says that there are none before it looks whether somebody waits.
TEST(SiwarpSetup, ConnectionThatIsOverKeepsItsDescriptorWhereNobodyWaitsForIt) {
  Nodes nodes;
  const auto refused = refused_peer(nodes);
  const auto next = RawPeer::connect(nodes.listener->address(), {});  // in the backlog
  const std::size_t before = open_descriptors();
  descriptors_left = 1;
  EXPECT_TRUE(
      nodes.pump_until([&] { return setup_counters(*nodes.server_provider).accepted == 2; }));
  descriptors_left = kManyDescriptors;
  EXPECT_EQ(open_descriptors(), before + 1);
}

TEST(SiwarpSetup, TooManyConnectionsAreTurnedAway) {
  Options options;
  options.connections_max = 2;
  Nodes nodes({}, options);
  End clients[2];
  End servers[2];
  nodes.connect(clients[0], servers[0]);
  nodes.connect(clients[1], servers[1]);
  End late;
  late.start(std::move(*nodes.client_provider->connect(nodes.listener->address(), {})));
  EXPECT_EQ(nodes.event(late), LinkEvent::kRefused);
  servers[0].queue_pair->disconnect();
  End client;
  End server;
  nodes.connect(client, server);
}

TEST(SiwarpSetup, RunningOutOfDescriptorsIsARestAndNotASpin) {
  Nodes nodes;
  const auto peer = RawPeer::connect(nodes.listener->address(), {});  // in the backlog
  descriptors_left = 0;
  std::optional<Error> refusal;
  ASSERT_TRUE(
      nodes.pump_until([&] { return (refusal = nodes.listener->poll_refusal()).has_value(); }));
  EXPECT_EQ(refusal->provider_code, EMFILE);
  EXPECT_FALSE(nodes.listener->poll_refusal());
  // It has seen the failure; wait() now sleeps instead of returning at once for ever.
  const int rounds = rounds_of(nodes);
  descriptors_left = kManyDescriptors;
  EXPECT_LT(rounds, 20);
  EXPECT_TRUE(
      nodes.pump_until([&] { return setup_counters(*nodes.server_provider).accepted == 1; }));
}

// A child of fork() can do that to its copy of the socket, and an administrator with `ss -K`.
TEST(SiwarpSetup, ASocketThatSomebodyShutDownIsARestAndNotASpin) {
  Nodes nodes;
  for (const int fd : listening_descriptors()) ASSERT_EQ(::shutdown(fd, SHUT_RDWR), 0);
  std::optional<Error> refusal;
  ASSERT_TRUE(
      nodes.pump_until([&] { return (refusal = nodes.listener->poll_refusal()).has_value(); }));
  EXPECT_EQ(refusal->provider_code, EINVAL);
  EXPECT_LT(rounds_of(nodes), 20);
}

// It is the same clients that wait, however often the server tries.
TEST(SiwarpSetup, ALackOfDescriptorsIsReportedOnceASecond) {
  Nodes nodes;
  std::vector<std::unique_ptr<RawPeer>> peers;
  // The first time has ended when the second one begins, which is reported at once.
  for (std::size_t time = 1; time <= 2; ++time) {
    peers.push_back(RawPeer::connect(nodes.listener->address(), {}));  // in the backlog
    descriptors_left = 0;
    ASSERT_TRUE(nodes.pump_until([&] { return nodes.listener->poll_refusal().has_value(); }));
    const Instant end = nodes.server_provider->now() + milliseconds(250);
    bool is_again = false;
    while (nodes.server_provider->now() < end) {
      nodes.pump();
      is_again = is_again || nodes.listener->poll_refusal();
    }
    EXPECT_FALSE(is_again);
    if (time == 2) {
      EXPECT_TRUE(nodes.pump_until([&] { return nodes.listener->poll_refusal().has_value(); }));
    }
    descriptors_left = kManyDescriptors;
    EXPECT_TRUE(
        nodes.pump_until([&] { return setup_counters(*nodes.server_provider).accepted == time; }));
  }
}

TEST(SiwarpSetup, ALackThatLetsOneConnectionThroughNowAndThenIsReportedOnceASecond) {
  constexpr std::uint64_t kClients = 4;
  Nodes nodes;
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::uint64_t i = 0; i < kClients; ++i) {
    peers.push_back(RawPeer::connect(nodes.listener->address(), {}));  // in the backlog
  }
  int reports = 0;
  const Instant begin = nodes.server_provider->now();
  const auto accepts = [&](std::uint64_t count) {
    return nodes.pump_until([&] {
      if (nodes.listener->poll_refusal()) ++reports;
      return setup_counters(*nodes.server_provider).accepted == count;
    });
  };
  descriptors_left = 0;
  ASSERT_TRUE(nodes.pump_until([&] { return nodes.listener->poll_refusal().has_value(); }));
  for (std::uint64_t accepted = 1; accepted < kClients; ++accepted) {
    descriptors_left = 1;
    ASSERT_TRUE(accepts(accepted));
  }
  descriptors_left = kManyDescriptors;
  EXPECT_TRUE(accepts(kClients));
  // A machine that stops the test for a second adds a report.
  EXPECT_LE(reports, (nodes.server_provider->now() - begin) / std::chrono::seconds(1));
}

TEST(SiwarpSetup, Ipv6WhenThereIsAny) {
  Nodes nodes;
  auto listening = nodes.server_provider->listen("[::1]:0");
  if (!listening) GTEST_SKIP() << "no IPv6 loopback on this machine";
  nodes.listener = std::move(*listening);
  End client;
  End server;
  nodes.connect(client, server);
  EXPECT_EQ(client.queue_pair->peer_address(), nodes.listener->address());
  EXPECT_TRUE(server.queue_pair->peer_address().starts_with("[::1]:"));
  nodes.say(client, server);
}

// A log line or a limit is about that host all the same.
TEST(SiwarpSetup, APeerThatResetItsConnectionBeforeItWasAcceptedKeepsItsAddress) {
  Nodes nodes;
  const auto peer = RawPeer::connect(nodes.listener->address(), {}, "127.0.0.2");
  ASSERT_TRUE(peer->send(raw_mpa_frame(false, {})));
  peer->reset();
  std::unique_ptr<rdma::Incoming> incoming;
  ASSERT_TRUE(
      nodes.pump_until([&] { return (incoming = nodes.listener->poll_incoming()) != nullptr; }));
  EXPECT_TRUE(incoming->peer_address().starts_with("127.0.0.2:")) << incoming->peer_address();
}

TEST(SiwarpSetup, RejectionOfARawResponder) {
  Nodes nodes;
  RawListener listener([&] { nodes.pump(); });
  End client;
  client.start(std::move(*nodes.client_provider->connect(listener.address(), hex("01"))));
  const auto peer = listener.accept();
  ASSERT_NE(peer, nullptr);
  RawMpa mpa;
  mpa.reject = true;
  EXPECT_EQ(peer->respond(mpa), hex("4d504120494420526571204672616d65 50 02 0005 0010 0010 01"));
  EXPECT_EQ(nodes.event(client), LinkEvent::kRefused);
}

// A responder of Linux overlooks an FPDU that follows its Reply too soon, until more bytes come.
TEST(SiwarpSetup, SilenceAfterTheFirstFpduIsNudgedSomeTimes) {
  Options options;
  options.first_answer_nudge = milliseconds(2);
  Nodes nodes(options);
  RawListener listener([&] { nodes.pump(); });
  End client;
  client.start(std::move(*nodes.client_provider->connect(listener.address(), {})));
  const auto peer = listener.accept();
  ASSERT_FALSE(peer->respond({}).empty());
  ASSERT_EQ(nodes.event(client), LinkEvent::kConnected);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.post(1, Send{}));
  EXPECT_EQ(peer->receive_fpdu().size(), 24U);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(peer->receive_fpdu(), hex("000e c140 00000001 0000000000000000 ebd34c5f"));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(2 + 4 + 8 + 16 + 32 + 64));
  peer->pump_until([&] { return peer->waiting() > 0; }, milliseconds(150));
  EXPECT_EQ(peer->waiting(), 0U);
}

TEST(SiwarpSetup, PeerThatAnswersIsNotNudged) {
  Options options;
  options.first_answer_nudge = milliseconds(100);
  Nodes nodes(options);
  RawListener listener([&] { nodes.pump(); });
  End client;
  client.start(std::move(*nodes.client_provider->connect(listener.address(), {})));
  const auto peer = listener.accept();
  ASSERT_FALSE(peer->respond({}).empty());
  ASSERT_EQ(nodes.event(client), LinkEvent::kConnected);
  ASSERT_TRUE(client.post(1, Receive{}));
  ASSERT_TRUE(client.post(2, Send{}, false));
  EXPECT_EQ(peer->receive_fpdu().size(), 24U);
  ASSERT_TRUE(peer->send(raw_fpdu(raw_send(1, {}))));
  EXPECT_EQ(nodes.completion(client)->id, 1U);
  peer->pump_until([&] { return peer->waiting() > 0; }, milliseconds(130));
  EXPECT_EQ(peer->waiting(), 0U);
}

}  // namespace
}  // namespace rpcrdma::rdma::siwarp::test
