// Data over real sockets, the ends of connections, and waiting.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "rdma/siwarp/nodes_for_test.h"
#include "rdma/siwarp/turn_size.h"
#include "support/hex.h"
#include "support/raw_peer.h"

namespace rpcrdma::rdma::siwarp::test {
namespace {

using rpcrdma::test::hex;
using rpcrdma::test::raw_fpdu;
using rpcrdma::test::raw_mpa_frame;
using rpcrdma::test::raw_send;
using rpcrdma::test::RawPeer;
using std::chrono::milliseconds;

void fill(SeededRandom& random, std::span<std::byte> memory) {
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random.next());
}

// Returns the ULPDU of an RDMA Write in one segment.
Buffer raw_write(const Remote& to, Bytes payload) {
  Buffer ulpdu = hex("c140");
  for (int shift = 24; shift >= 0; shift -= 8) {
    ulpdu.push_back(static_cast<std::byte>(static_cast<std::uint32_t>(to.tag) >> shift));
  }
  for (int shift = 56; shift >= 0; shift -= 8) {
    ulpdu.push_back(static_cast<std::byte>(to.address >> shift));
  }
  ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
  return ulpdu;
}

// Writes, Reads and Sends in both directions at once, many at a time.
void exchange(const Options& left, const Options& right) {
  Nodes nodes(left, right);
  End client;
  End server;
  nodes.connect(client, server);
  nodes.say(client, server);
  SeededRandom random(7);
  constexpr std::uint32_t kPart = 64 * 1024;
  constexpr std::uint32_t kParts = 4;
  // Memory of each end: what it sends, what is written to it, what it reads, messages.
  struct Side {
    End* end;
    End* peer;
    Remote target, source;
  };
  std::array<Side, 2> sides{Side{&client, &server, {}, {}}, Side{&server, &client, {}, {}}};
  for (Side& side : sides) {
    fill(random, std::span(side.end->memory).first(kPart * kParts));
    side.target = side.peer->expose(kPart * kParts, kPart * kParts, RemoteAccess::kWrite);
    side.source = side.peer->expose(0, kPart * kParts, RemoteAccess::kRead);
    for (std::uint32_t i = 0; i < kParts; ++i) {
      const Slice into = side.end->slice(3 * kPart * kParts + i * kPart, kPart);
      ASSERT_TRUE(side.end->post(i, Receive{{&into, 1}}));
    }
  }

  for (Side& side : sides) {
    std::vector<work::Request> batch;
    std::array<Slice, kParts> from;
    for (std::uint32_t i = 0; i < kParts; ++i) {
      from[i] = side.end->slice(i * kPart, kPart);
      const Remote to{side.target.tag, kPart, side.target.address + i * kPart};
      const Remote back{side.source.tag, kPart, side.source.address + i * kPart};
      batch.push_back({100 + i, true, Write{{&from[i], 1}, to}});
      batch.push_back({200 + i, true, Read{side.end->slice((8 + i) * kPart, kPart), back}});
      if (i + 1 < kParts) batch.push_back({300 + i, true, Send{{&from[i], 1}, {}}});
    }
    ASSERT_TRUE(side.end->queue_pair->post(batch).has_value());
  }
  for (Side& side : sides) {
    std::size_t done = 0;
    ASSERT_TRUE(nodes.pump_until([&] {
      while (const auto completion = side.end->poll()) {
        EXPECT_EQ(completion->status, Status::kOk);
        ++done;
      }
      return done == 3 * kParts - 1 + kParts - 1;
    })) << done;
  }
  // The last Read of each side has shown that the Write before it has arrived.
  for (Side& side : sides) {
    EXPECT_EQ(std::memcmp(&side.end->memory[2 * kPart * kParts], side.peer->memory.data(),
                          kPart * kParts),
              0);
    EXPECT_EQ(
        std::memcmp(&side.end->memory[kPart * kParts], side.peer->memory.data(), kPart * kParts),
        0);
  }
}

}  // namespace

TEST(SiwarpTransfer, EverythingInBothDirectionsAtOnce) {
  for (const bool crc : {true, false}) {
    for (const std::uint32_t size : {0U, 1424U, 8000U, 9000U, 65'520U}) {
      for (const int buffers : {0, 20'000, 2 * 1024 * 1024}) {
        SCOPED_TRACE(testing::Message() << crc << " " << size << " " << buffers);
        Options options;
        options.crc = crc;
        options.segment_size_max = size;
        options.socket_buffer_size = buffers;
        exchange(options, options);
      }
    }
  }
}

TEST(SiwarpTransfer, BatchOfSendsIsOneSystemCall) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  std::vector<work::Request> receives;
  std::vector<work::Request> sends;
  const Slice note = client.slice(0, 100);
  const Slice room = server.slice(0, 100);
  for (std::uint64_t i = 0; i < 64; ++i) {
    receives.push_back({i, true, Receive{{&room, 1}}});
    sends.push_back({i, true, Send{{&note, 1}, {}}});
  }
  ASSERT_TRUE(server.queue_pair->post(receives).has_value());
  const std::uint64_t before = client.queue_pair->counters().system_calls;
  ASSERT_TRUE(client.queue_pair->post(sends).has_value());
  EXPECT_EQ(client.queue_pair->counters().system_calls - before, 1U);
  std::array<Completion, 128> done;
  EXPECT_EQ(client.queue_pair->poll(done), 64U);
  const std::uint64_t calls = server.queue_pair->counters().system_calls;
  std::size_t received = 0;
  ASSERT_TRUE(nodes.pump_until([&] {
    received += server.queue_pair->poll(done);
    return received == 64;
  }));
  EXPECT_LE(server.queue_pair->counters().system_calls - calls, 2U);
}

// So that others have theirs: what is left goes out in the next ones, though nothing else happens.
void expect_turns(std::uint32_t message_size, int messages, std::uint64_t least,
                  std::uint64_t most) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  const Remote room = server.expose(0, message_size, RemoteAccess::kWrite);
  const Slice all = client.slice(0, message_size);
  const auto sent = [&] { return client.queue_pair->counters().bytes_sent; };
  for (int i = 0; i < messages; ++i) ASSERT_TRUE(client.post(1, Write{{&all, 1}, room}, false));
  EXPECT_GE(sent(), least) << "one turn";
  EXPECT_LT(sent(), most);
  const std::uint64_t first = sent();
  nodes.client_provider->progress();
  pollfd waited{nodes.client_provider->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 0), 1) << "for who waits in a loop of its own";
  const std::uint64_t second = sent();
  EXPECT_GT(second, first);
  nodes.client_provider->arm_timer(std::nullopt);
  nodes.client_provider->wait();  // does not wait for anything
  nodes.client_provider->progress();
  EXPECT_GT(sent(), second);
  EXPECT_LT(sent(), second + most);
  nodes.pump_until([&] { return sent() > first + second; });
}

TEST(SiwarpTransfer, ATurnToSendIsBounded) {
  expect_turns(64U << 10U, 128, 1U << 20U, 3U << 20U);
}

// The peer reads it while it is in the cache, and whoever waits beside it waits less long.
TEST(SiwarpTransfer, ATurnHasAPartOfALongMessage) {
  expect_turns(1U << 20U, 8, 256U << 10U, 512U << 10U);
}

// Which turns are faster here is not for this test: it has them tried in a time that is over.
TEST(SiwarpTransfer, ALongTurnEndsWhenAnotherConnectionMoves) {
  constexpr std::uint32_t kSize = 1U << 20U;
  Nodes nodes;
  End client, server, other_client, other_server;
  nodes.connect(client, server);
  nodes.connect(other_client, other_server);
  nodes.say(client, server);
  TurnSize& turns = turn_size(*nodes.server_provider);
  Instant then = nodes.server_provider->now() - std::chrono::hours(1);
  for (int i = 0; i < 2000; ++i) {  // three more do not end a window, which would have a pause
    then += turns.bytes() == TurnSize::kLong ? milliseconds(1) : milliseconds(2);
    turns.sent(TurnSize::kLong, then);
  }
  ASSERT_EQ(turns.bytes(), TurnSize::kLong);
  const Remote room = client.expose(0, kSize, RemoteAccess::kWrite);
  const Slice all = server.slice(0, kSize);
  const auto sent_in_one_turn = [&] {
    const std::uint64_t before = server.queue_pair->counters().bytes_sent;
    EXPECT_TRUE(server.post(1, Write{{&all, 1}, room}, false));
    const std::uint64_t sent = server.queue_pair->counters().bytes_sent - before;
    nodes.say(server, client);  // so that the sockets are empty
    return sent;
  };
  for (int i = 0; i < 3; ++i) EXPECT_GT(sent_in_one_turn(), kSize / 2) << i;
  nodes.say(other_client, other_server);
  EXPECT_LT(sent_in_one_turn(), kSize / 2);
}

TEST(SiwarpTransfer, AServerRequestsLongReadsInPiecesWhileAnotherConnectionMoves) {
  constexpr std::uint32_t kSize = 1U << 20U;
  Nodes nodes;
  End client, server, other_client, other_server;
  nodes.connect(client, server);
  nodes.say(client, server);  // before it has, a server sends nothing
  const Remote source = client.expose(0, kSize, RemoteAccess::kRead);
  const auto bytes_of_requests = [&](std::uint32_t size) {
    const std::uint64_t before = server.queue_pair->counters().bytes_sent;
    Remote from = source;
    from.size = size;
    EXPECT_TRUE(server.post(1, Read{server.slice(0, size), from}));
    EXPECT_TRUE(nodes.completion(server));
    return server.queue_pair->counters().bytes_sent - before;
  };
  const std::uint64_t whole = bytes_of_requests(kSize);
  EXPECT_EQ(bytes_of_requests(kSize), whole) << "nobody else has moved";
  nodes.connect(other_client, other_server);
  nodes.say(other_client, other_server);
  EXPECT_EQ(bytes_of_requests(kSize), kSize / (TurnSize::kShort / 2) * whole);
  EXPECT_EQ(bytes_of_requests(TurnSize::kShort), whole) << "it is not long";
}

TEST(SiwarpTransfer, BulkIsPlacedWithoutCopies) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  const Remote room = server.expose(0, 1U << 20U, RemoteAccess::kWrite);
  const Slice all = client.slice(0, 1U << 20U);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client.post(1, Write{{&all, 1}, room}, false));
    nodes.say(client, server);
  }
  const Counters sent = client.queue_pair->counters();
  const Counters received = server.queue_pair->counters();
  EXPECT_EQ(sent.payload_sent, 10U << 20U);
  EXPECT_EQ(received.payload_received, 10U << 20U);
  EXPECT_LT(sent.bytes_copied, 10'000U);  // the small last FPDU of each Write
  // The first FPDU, before the regime is known, and the header's neighbourhood of the others.
  EXPECT_LT(received.bytes_copied, (10U << 20U) / 20);
}

TEST(SiwarpTransfer, CountsItsWorkByKind) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  const Remote source = server.expose(0, 1000, RemoteAccess::kRead);
  const Remote target = server.expose(1000, 1000, RemoteAccess::kWrite);
  const Slice from = client.slice(0, 1000);
  const Counters before = client.queue_pair->counters();
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.post(i, Read{client.slice(1000, 1000), source}));
    ASSERT_TRUE(nodes.pump_until([&] { return client.poll().has_value(); }));
  }
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.post(7, Write{{&from, 1}, target}, false));
  nodes.say(client, server);
  const Counters after = client.queue_pair->counters();
  EXPECT_EQ(after.reads - before.reads, 3U);
  EXPECT_EQ(after.writes - before.writes, 2U);
  EXPECT_EQ(after.sends - before.sends, 1U);
}

TEST(SiwarpTransfer, PeerThatDiesInTheMiddleFlushesEverything) {
  Nodes nodes;
  const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  ASSERT_TRUE(peer->send(rpcrdma::test::raw_mpa_frame(false, {})));
  End server;
  server.start(std::move(*nodes.server_provider->accept(nodes.incoming(), {})));
  EXPECT_FALSE(peer->receive_mpa_frame().empty());
  const Slice room = server.slice(0, 100'000);
  ASSERT_TRUE(server.post(1, Receive{{&room, 1}}));
  ASSERT_TRUE(server.post(2, Receive{}));
  const Buffer whole = raw_fpdu(raw_send(1, Buffer(50'000)));
  ASSERT_TRUE(peer->send(Bytes(whole).first(30'000)));
  nodes.pump();
  peer->reset();
  ASSERT_EQ(nodes.event(server), LinkEvent::kConnected);
  ASSERT_EQ(nodes.event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair->cause().code, Errc::kClosed);
  EXPECT_EQ(server.queue_pair->cause().provider_code, ECONNRESET);
  EXPECT_EQ(server.poll()->status, Status::kFlushed);
  EXPECT_EQ(server.poll()->status, Status::kFlushed);
  EXPECT_FALSE(server.poll());
}

TEST(SiwarpTransfer, HostileFpduIsAnsweredWithATerminateThatArrives) {
  Nodes nodes;
  const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  ASSERT_TRUE(peer->send(rpcrdma::test::raw_mpa_frame(false, {})));
  End server;
  server.start(std::move(*nodes.server_provider->accept(nodes.incoming(), {})));
  EXPECT_FALSE(peer->receive_mpa_frame().empty());
  // A Write to a tag that is none, and much more behind it that nobody reads.
  Buffer bytes = raw_fpdu(hex("c140 00012345 0000000000001000 41424344"));
  bytes.resize(300'000);
  ASSERT_TRUE(peer->send(bytes));
  const Buffer terminate = peer->receive_fpdu();
  ASSERT_GE(terminate.size(), 24U);
  EXPECT_EQ(Buffer(terminate.begin() + 2, terminate.begin() + 4), hex("4147"));
  EXPECT_EQ(Buffer(terminate.begin() + 20, terminate.begin() + 22), hex("1100"));
  EXPECT_TRUE(peer->receive_to_end()->empty());
  EXPECT_EQ(nodes.event(server), LinkEvent::kConnected);
  EXPECT_EQ(nodes.event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair->cause().code, Errc::kProtocol);
}

TEST(SiwarpTransfer, PeerThatReadsNothingCannotHoldUpATerminate) {
  Options options;
  options.linger = milliseconds(20);
  options.socket_buffer_size = 10'000;
  Nodes nodes({}, options);
  const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  ASSERT_TRUE(peer->send(rpcrdma::test::raw_mpa_frame(false, {})));
  End server;
  server.start(std::move(*nodes.server_provider->accept(nodes.incoming(), {})));
  EXPECT_FALSE(peer->receive_mpa_frame().empty());
  ASSERT_TRUE(peer->send(raw_fpdu(hex("c140 00000001 0000000000000000"))));
  nodes.pump();
  EXPECT_EQ(nodes.event(server), LinkEvent::kConnected);
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Slice all = server.slice(0, 1U << 20U);
    ASSERT_TRUE(server.post(i, Send{{&all, 1}, {}}));
  }
  ASSERT_TRUE(peer->send(raw_fpdu(hex("0000"))));  // nonsense
  EXPECT_EQ(nodes.event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair->cause().code, Errc::kProtocol);
}

TEST(SiwarpTransfer, SendsThatCompletedArriveAfterADisconnect) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  const Slice note = client.slice(0, 50'000);
  const Slice room = server.slice(0, 50'000);
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(server.post(i, Receive{{&room, 1}}));
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(client.post(i, Send{{&note, 1}, {}}));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(nodes.completion(client)->status, Status::kOk);
  client.queue_pair.reset();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(nodes.completion(server)->status, Status::kOk);
  EXPECT_EQ(nodes.event(server), LinkEvent::kDisconnected);
}

TEST(SiwarpTransfer, SendsThatWereCopiedArriveAfterADisconnectThroughAFullSocket) {
  constexpr std::uint32_t kSize = 1000;
  Options options;
  options.socket_buffer_size = 10'000;
  Nodes nodes(options, options);
  End client;
  End server;
  nodes.connect(client, server);
  std::uint64_t copied = 0;
  for (bool again = true; again;) {
    const Slice room = server.slice(copied * kSize, kSize);
    ASSERT_TRUE(server.post(copied, Receive{{&room, 1}}));
    std::fill_n(client.memory.begin(), kSize, static_cast<std::byte>(copied));
    const Slice note = client.slice(0, kSize);
    work::Request request{copied, true, Send{{&note, 1}, {}}};
    request.may_copy = true;
    ASSERT_TRUE(client.queue_pair->post({&request, 1}));
    again = request.copied;
    copied += again ? 1U : 0U;
  }
  EXPECT_GT(copied, 0U);  // the last of them met a full socket
  client.queue_pair.reset();
  for (std::uint64_t i = 0; i < copied; ++i) {
    for (int k = 0; k < 100; ++k) nodes.client_provider->progress();
    const auto done = nodes.completion(server);
    ASSERT_TRUE(done.has_value()) << i << " of " << copied;
    ASSERT_EQ(done->status, Status::kOk) << i << " of " << copied;
    EXPECT_EQ(server.memory[i * kSize + 500], static_cast<std::byte>(i));
  }
  EXPECT_EQ(nodes.event(server), LinkEvent::kDisconnected);
}

TEST(SiwarpTransfer, SocketThatIsOnlyKeptForItsPeerGivesItsOwnerNothingToDo) {
  Options options;
  options.socket_buffer_size = 10'000;
  Nodes nodes({}, options);
  const auto peer = RawPeer::connect(nodes.listener->address(), [&] { nodes.pump(); });
  ASSERT_TRUE(peer->send(rpcrdma::test::raw_mpa_frame(false, {})));
  End server;
  server.start(std::move(*nodes.server_provider->accept(nodes.incoming(), {})));
  EXPECT_FALSE(peer->receive_mpa_frame().empty());
  ASSERT_TRUE(peer->send(raw_fpdu(hex("c140 00000001 0000000000000000"))));
  EXPECT_EQ(nodes.event(server), LinkEvent::kConnected);
  ASSERT_TRUE(nodes.pump_until([&] { return server.queue_pair->counters().bytes_received > 0; }));
  const Slice note = server.slice(0, 1000);
  std::size_t copied = 0;
  for (bool again = true; again; copied += again ? 1U : 0U) {
    work::Request request{copied, true, Send{{&note, 1}, {}}};
    request.may_copy = true;
    ASSERT_TRUE(server.queue_pair->post({&request, 1}));
    again = request.copied;
  }
  ASSERT_GT(copied, 0U);
  server.queue_pair.reset();  // the last Sends are not in the full socket yet
  pollfd entry{nodes.server_provider->wait_fd(), POLLIN, 0};
  nodes.server_provider->progress();
  EXPECT_EQ(poll(&entry, 1, 0), 0) << "the peer reads nothing";
  const auto received = peer->receive_to_end();
  ASSERT_TRUE(received);
  EXPECT_GT(received->size(), copied * 1000);
  nodes.server_provider->progress();
  EXPECT_EQ(poll(&entry, 1, 0), 0) << "everything is sent, and the peer has not closed";
}

TEST(SiwarpTransfer, DestroyingAQueuePairEndsAccessAtOnce) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  const Remote room = server.expose(0, 1U << 20U, RemoteAccess::kWrite);
  const Slice all = client.slice(0, 1U << 20U);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client.post(1, Write{{&all, 1}, room}, false));
  nodes.server_provider->progress();
  server.queue_pair.reset();
  server.memory = Buffer();  // ASan would tell
  EXPECT_EQ(nodes.event(client), LinkEvent::kDisconnected);
}

TEST(SiwarpTransfer, WaitFdTellsOfBytesTimersAndWakeUps) {
  Nodes nodes;
  End client;
  End server;
  nodes.connect(client, server);
  Provider& provider = *nodes.server_provider;
  provider.progress();
  const auto readable = [&](int timeout) {
    pollfd entry{provider.wait_fd(), POLLIN, 0};
    return poll(&entry, 1, timeout) == 1;
  };
  EXPECT_FALSE(readable(0));
  provider.wake();
  EXPECT_TRUE(readable(0));
  provider.progress();
  EXPECT_FALSE(readable(0));
  provider.arm_timer(provider.now() + std::chrono::hours(1));
  EXPECT_FALSE(readable(0));
  provider.arm_timer(provider.now() + milliseconds(5));
  EXPECT_TRUE(readable(1000));
  provider.progress();
  EXPECT_FALSE(readable(0));
  provider.arm_timer(provider.now() - milliseconds(5));
  EXPECT_TRUE(readable(100));
  provider.arm_timer(std::nullopt);
  provider.progress();
  EXPECT_FALSE(readable(0));
  ASSERT_TRUE(server.post(1, Receive{}));
  ASSERT_TRUE(client.post(2, Send{}));
  EXPECT_TRUE(readable(1000));
}

// A peer that never stops would keep all other connections from their turns.
TEST(SiwarpTransfer, ATurnToReceiveEndsThoughThePeerSendsWithoutEnd) {
  constexpr std::uint64_t kTurnMax = std::uint64_t{2} << 20U;
  constexpr std::uint64_t kTotal = std::uint64_t{24} << 20U;
  for (const std::uint32_t size : {0U, 32'768U}) {
    SCOPED_TRACE(size);
    Nodes nodes;
    bool is_alone = true;  // a second thread pumps nothing
    const auto peer = RawPeer::connect(nodes.listener->address(), [&] {
      if (is_alone) nodes.pump();
    });
    ASSERT_TRUE(peer->send(raw_mpa_frame(false, {})));
    End server;
    server.start(std::move(*nodes.server_provider->accept(nodes.incoming(), {})));
    ASSERT_EQ(nodes.event(server), LinkEvent::kConnected);
    const Remote room = server.expose(0, 32'768, RemoteAccess::kWrite);
    const Buffer write = raw_fpdu(raw_write(room, Buffer(size)));
    Buffer many;
    while (many.size() < 1'000'000) many.insert(many.end(), write.begin(), write.end());
    is_alone = false;
    std::uint64_t sent = 0;
    std::thread sender([&] {
      while (sent < kTotal && peer->send(many)) sent += many.size();
    });
    std::uint64_t received = 0;
    std::uint64_t most = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (received < kTotal && std::chrono::steady_clock::now() < end) {
      nodes.server_provider->progress();
      const std::uint64_t now = server.queue_pair->counters().bytes_received;
      most = std::max(most, now - std::exchange(received, now));
    }
    server.queue_pair.reset();  // which ends a sender that has more
    sender.join();
    EXPECT_GE(received, kTotal);
    EXPECT_LE(most, kTurnMax);
  }
}

// Each signal would cost it three system calls, four times for each message of 1 MiB.
TEST(SiwarpTransfer, AnOwnerThatLingersIsSignalledWhatIsLeftToSendWhenItGoes) {
  Options options;
  options.first_answer_nudge = std::chrono::hours(1);  // its timer would be news
  Nodes nodes(options, options);
  End client;
  End server;
  nodes.connect(client, server);
  constexpr std::uint32_t kSize = 1U << 20U;  // several turns
  const Remote room = server.expose(0, kSize, RemoteAccess::kWrite);
  const Slice all = client.slice(0, kSize);
  Provider& provider = *nodes.client_provider;
  provider.progress();
  const int descriptor = provider.wait_fd();
  const auto readable = [&] {
    pollfd entry{descriptor, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  };
  ASSERT_TRUE(client.post(1, Write{{&all, 1}, room}, false));
  EXPECT_TRUE(readable());
  provider.progress();
  EXPECT_TRUE(readable()) << "as long as the owner polls";
  EXPECT_TRUE(provider.linger());
  provider.progress();
  EXPECT_FALSE(readable());
  ASSERT_EQ(provider.wait_fd(), descriptor);
  EXPECT_TRUE(readable());
}

TEST(SiwarpTransfer, WaitReturnsForNewsAndForOtherThreads) {
  for (const int spin : {0, 20}) {
    Options options;
    options.spin = std::chrono::microseconds(spin);
    Nodes nodes(options, options);
    End client;
    End server;
    nodes.connect(client, server);
    nodes.pump();
    client.expose(0, 10, RemoteAccess::kRead);
    ASSERT_TRUE(client.post(1, Expose{client.slice(0, 1), RemoteAccess::kRead}));
    nodes.client_provider->wait();  // does not block: there is a completion to be polled
    EXPECT_TRUE(client.poll());
    nodes.client_provider->progress();
    std::thread other([&] { nodes.client_provider->wake(); });
    nodes.client_provider->wait();
    other.join();
    nodes.client_provider->progress();
    ASSERT_TRUE(client.post(3, Receive{}));
    ASSERT_TRUE(server.post(4, Receive{}));
    ASSERT_TRUE(client.post(2, Send{}, false));
    while (!server.poll()) {
      nodes.server_provider->wait();
      nodes.server_provider->progress();
    }
    ASSERT_TRUE(server.post(5, Send{}, false));
    while (!client.poll()) {
      nodes.client_provider->wait();
      nodes.client_provider->progress();
    }
  }
}

TEST(SiwarpTransfer, RegionsComeAndGo) {
  Options options;
  options.regions = 3;
  Nodes nodes(options);
  End client;
  client.start(std::move(*nodes.client_provider->connect(nodes.listener->address(), {})));
  Buffer memory(10);
  const auto one = client.queue_pair->attach(memory);
  const auto two = client.queue_pair->attach_read_only(memory);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(client.queue_pair->attach(memory).error().code, Errc::kNoResources);
  client.queue_pair->detach(*one);
  const auto three = client.queue_pair->attach(memory);
  ASSERT_TRUE(three);
  EXPECT_NE(*one, *three);  // a stale name stays invalid
  const Slice stale{*one, 1, 0};
  const Slice fresh{*three, 10, 0};
  const Slice constant{*two, 10, 0};
  EXPECT_FALSE(client.post(1, Receive{{&stale, 1}}));
  EXPECT_TRUE(client.post(1, Receive{{&fresh, 1}}));
  EXPECT_FALSE(client.post(1, Receive{{&constant, 1}}));
}

// --- Batches of Sends that are copied ----------------------------------------------------------

class CopiedSends : public testing::TestWithParam<bool> {  // with CRC
 protected:
  static constexpr std::uint32_t kSends = 60, kSizeMax = 2040, kPlace = 4096;
  static Options with_crc() {
    Options options;
    options.crc = GetParam();
    return options;
  }
  static std::uint32_t size_of(std::uint32_t send) { return kSizeMax - send; }

  void SetUp() override {
    nodes_.connect(client_, server_);
    nodes_.say(client_, server_);
    SeededRandom random(11);
    fill(random, std::span(client_.memory).first(kSends * kPlace));
    for (std::uint32_t i = 0; i < kSends; ++i) {
      const Slice into = server_.slice(std::uint64_t{i} * kPlace, kPlace);
      ASSERT_TRUE(server_.post(i, Receive{{&into, 1}}));
    }
  }
  std::vector<work::Request> batch() {
    std::vector<work::Request> made;
    for (std::uint32_t i = 0; i < kSends; ++i) {
      slices_[i] = client_.slice(std::uint64_t{i} * kPlace, size_of(i));
      made.push_back({.id = i, .work = Send{{&slices_[i], 1}, {}}, .may_copy = true});
    }
    return made;
  }

  Nodes nodes_{with_crc(), with_crc()};
  End client_, server_;
  std::array<Slice, kSends> slices_{};
};

TEST_P(CopiedSends, ArriveInOrderWhereNotAllCanBeCopiedAtOnce) {
  auto sends = batch();
  ASSERT_TRUE(client_.queue_pair->post(sends).has_value());
  const auto first_kept = std::ranges::find(sends, false, &work::Request::copied);
  const auto kept = static_cast<std::size_t>(sends.end() - first_kept);
  EXPECT_GT(kept, 0U) << "they are more than there is room for";
  EXPECT_LT(kept, kSends) << "and some have room";
  EXPECT_TRUE(std::all_of(first_kept, sends.end(), [](const auto& each) { return !each.copied; }));
  const Buffer before = client_.memory;
  // The memory of copied Sends is the caller's again.
  for (auto each = sends.begin(); each != first_kept; ++each) {
    std::fill_n(client_.memory.begin() + static_cast<std::ptrdiff_t>(each->id * kPlace), kSizeMax,
                std::byte{0xee});
  }
  for (std::uint32_t i = 0; i < kSends; ++i) {
    const auto received = nodes_.completion(server_);
    ASSERT_TRUE(received && received->status == Status::kOk);
    ASSERT_EQ(received->id, i);
    ASSERT_EQ(received->size, size_of(i));
    const auto at = static_cast<std::ptrdiff_t>(i * kPlace);
    EXPECT_TRUE(std::equal(server_.memory.begin() + at, server_.memory.begin() + at + size_of(i),
                           before.begin() + at));
  }
  for (std::size_t i = 0; i < kept; ++i) {
    const auto done = nodes_.completion(client_);
    ASSERT_TRUE(done && done->status == Status::kOk);
    EXPECT_EQ(done->id, kSends - kept + i);
  }
  EXPECT_FALSE(client_.poll());
}

TEST_P(CopiedSends, AreNotSentWhereOneOfTheBatchIsWrong) {
  auto sends = batch();
  slices_.back().offset = client_.memory.size();
  const auto posted = client_.queue_pair->post(sends);
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error().code, Errc::kUnsupported);
  for (const work::Request& each : sends) EXPECT_FALSE(each.copied);
  ASSERT_TRUE(client_.post(901, Send{}, false));  // arrives before all others
  const auto received = nodes_.completion(server_);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->size, 0U);
}

INSTANTIATE_TEST_SUITE_P(Crc, CopiedSends, testing::Bool());

}  // namespace rpcrdma::rdma::siwarp::test
