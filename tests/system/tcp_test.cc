// One service, two transports: a server that answers over tcp:// what it answers over rdma://, to
// peers of every kind. Through the public headers; the peers at TCP are raw sockets.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/backward.h"
#include "support/checked_reply.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "tcp/record.h"

namespace rpcrdma::test {
namespace {

using Words = std::vector<std::uint32_t>;

Message record_of(const Message& message) {
  const tcp::RecordMark mark = tcp::mark_of(message.size());
  return join({Message(mark.begin(), mark.end()), message});
}
// opaque<>, with its fill bytes.
Message opaque(const Message& data) {
  Message out(xdr::kWordSize + xdr::padded(data.size()));
  xdr::Writer writer(out);
  writer.opaque(data);
  return out;
}
Message call_of(std::uint32_t xid, std::uint32_t procedure, const Message& arguments = {}) {
  return join({raw_call(xid, procedure), arguments});
}

class TcpTest : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}, Service* other = nullptr) {
    options.provider.name = "siwarp";
    options.on_connection = [this](const ConnectionEvent& event) {
      if (event.kind != ConnectionEvent::Kind::kEnded) return;
      ends.push_back(event.error == nullptr ? "in order" : event.error->cause);
      if (event.was_reset_at_rest) ++resets_at_rest;
    };
    server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", options)));
    const auto real = server->add_listener("tcp://127.0.0.1:0");
    ASSERT_TRUE(real) << real.error().message();
    tcp_address = *real;
    Service& chosen = other == nullptr ? service : *other;
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, chosen));
  }
  void TearDown() override {
    if (!server) return;
    for (CallContext* context : std::exchange(service.held, {})) context->succeed();
    peers.clear();
    run_until([this] { return server->connections() == 0; });
    EXPECT_EQ(server->memory_in_use(), 0U);
  }
  RawPeer& connect() {
    peers.push_back(RawPeer::connect(tcp_address, [this] { server->progress(); }));
    return *peers.back();
  }
  void run_until(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      server->progress();
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the condition never held";
    }
  }
  // The next record; empty at the end of the stream.
  static Message next(RawPeer& peer) {
    tcp::HeapMemory memory;
    tcp::RecordReader reader(memory, {.size_max = 64U << 20U, .fragments_max = 1});
    while (!reader.done()) {
      const auto bytes = peer.receive(reader.wanted());
      if (bytes.empty()) return {};
      reader.take(bytes);
    }
    const tcp::Message message = reader.release();
    return {message.bytes().begin(), message.bytes().end()};
  }
  static Words ask(RawPeer& peer, const Message& call) {
    EXPECT_TRUE(peer.send(record_of(call)));
    return to_words(next(peer));
  }

  TestService service;
  std::optional<Server> server;
  std::string tcp_address;
  std::vector<std::unique_ptr<RawPeer>> peers;
  std::vector<std::string> ends;
  std::size_t resets_at_rest = 0;
};

// Peers that break the rules, or use them against us.
class HostileToTcp : public TcpTest {};

TEST_F(TcpTest, OneServiceAnswersOverBothTransports) {
  start();
  const Message data = pattern(300'001, 7);
  std::atomic<bool> ended = false;
  std::thread calling([&, url = "rdma://" + std::string(server->address())] {
    ClientOptions options;
    options.provider.name = "siwarp";
    auto client = Client::connect(url, options);
    ASSERT_TRUE(client) << client.error().message();
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    call->arguments().bulk(data);
    Message place(data.size());
    call->place_result(place);
    auto reply = client->call(std::move(*call));
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(400'000, "data"), data));
    ended = true;
  });
  run_until([&] { return ended.load(); });
  calling.join();
  RawPeer& peer = connect();
  ASSERT_TRUE(peer.send(record_of(call_of(9, TestService::kEcho, opaque(data)))));
  EXPECT_TRUE(next(peer) == join({raw_reply(9), opaque(data)}));
  EXPECT_EQ(service.calls, 2U);
  EXPECT_EQ(server->counters().calls, 2U);
}

TEST_F(TcpTest, TellsAResetAtRestFromOneThatCutsACallShort) {
  start();
  RawPeer& idle = connect();
  ASSERT_FALSE(ask(idle, call_of(1, TestService::kNull)).empty());
  idle.reset();
  run_until([this] { return ends.size() == 1; });
  EXPECT_EQ(resets_at_rest, 1U) << ends[0];
  RawPeer& waiting = connect();
  ASSERT_TRUE(waiting.send(record_of(call_of(2, TestService::kHold))));
  run_until([this] { return !service.held.empty(); });
  waiting.reset();
  server->progress();
  for (CallContext* context : std::exchange(service.held, {})) context->succeed();
  run_until([this] { return ends.size() == 2; });
  EXPECT_EQ(resets_at_rest, 1U) << "a call was under way: " << ends[1];
  RawPeer& cut = connect();
  const std::uint64_t before = server->counters().wire_bytes_received;
  ASSERT_TRUE(cut.send(Bytes(record_of(call_of(3, TestService::kNull))).first(20)));
  run_until([&] { return server->counters().wire_bytes_received == before + 20; });
  cut.reset();
  run_until([this] { return ends.size() == 3; });
  EXPECT_EQ(resets_at_rest, 1U) << "a call had come in part: " << ends[2];
}

TEST_F(TcpTest, TellsAResetAtRestOverRdmaToo) {
  start();
  const auto peer = RawPeer::connect(server->address(), [this] { server->progress(); });
  ASSERT_NE(peer, nullptr);
  ASSERT_TRUE(peer->send(raw_mpa_frame(false, {})));
  ASSERT_FALSE(peer->receive_mpa_frame().empty());
  run_until([this] { return server->connections() == 1; });
  peer->reset();
  run_until([this] { return ends.size() == 1; });
  EXPECT_EQ(resets_at_rest, 1U) << ends[0];
}

TEST_F(TcpTest, RecordsMayComeInManyFragments) {
  start();
  RawPeer& peer = connect();
  const Message data = pattern(999, 3);
  const Message call = call_of(5, TestService::kEcho, opaque(data));
  Message stream;
  for (std::size_t i = 0; i < call.size(); ++i) {
    const bool is_last = i + 1 == call.size();
    stream = join({stream, words({(is_last ? tcp::kLastFragment : 0) | 1}), {call[i]}});
  }
  ASSERT_TRUE(peer.send(stream));
  EXPECT_EQ(next(peer), join({raw_reply(5), opaque(data)}));
}

TEST_F(TcpTest, BulkItemsAndWhatIsBetweenThemComeInTheirOrder) {
  start();
  RawPeer& peer = connect();
  const Message first = pattern(70'001, 1);
  const Message second = pattern(2, 2);
  const Message text = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  const Message call = call_of(6, TestService::kSwap,
                               join({words({1}), opaque(first), opaque(text), opaque(second)}));
  ASSERT_TRUE(peer.send(record_of(call)));
  EXPECT_TRUE(next(peer) == join({raw_reply(6), opaque(second), opaque(text), opaque(first)}));
}

TEST_F(HostileToTcp, RpcRefusalsAreThoseOfRfc5531) {
  start();
  RawPeer& peer = connect();
  EXPECT_EQ(ask(peer, raw_call(1, 0)), (Words{1, 1, 0, 0, 0, 0}));  // NULL
  EXPECT_EQ(ask(peer, words({2, 0, 3, 0, 0, 0})), (Words{2, 1, 1, 0, 2, 2}));
  const std::uint32_t program = TestService::kProgram;
  EXPECT_EQ(ask(peer, words({3, 0, 2, program + 1, 3, 1, 0, 0, 0, 0})), (Words{3, 1, 0, 0, 0, 1}));
  EXPECT_EQ(ask(peer, words({4, 0, 2, program, 9, 1, 0, 0, 0, 0})),
            (Words{4, 1, 0, 0, 0, 2, 3, 3}));
  EXPECT_EQ(ask(peer, raw_call(5, 77)), (Words{5, 1, 0, 0, 0, 3}));
  EXPECT_EQ(ask(peer, raw_call(6, TestService::kGarbage)), (Words{6, 1, 0, 0, 0, 4}));
  EXPECT_EQ(ask(peer, words({7, 0, 2, program, 3, 1, 1, 404, 0})), (Words{7, 1, 1, 1, 1}));
  // AUTH_SYS with 17 groups, and with one.
  EXPECT_EQ(ask(peer, words({8, 0, 2, program, 3, 7, 1, 20, 0, 0, 5, 6, 17, 0, 0})),
            (Words{8, 1, 1, 1, 1}));
  EXPECT_EQ(ask(peer, words({9, 0, 2, program, 3, 7, 1, 20, 0, 0, 5, 6, 0, 0, 0})),
            (Words{9, 1, 0, 0, 0, 0, 5}));
  // RPCSEC_GSS that nobody checks, and AUTH_SHORT.
  EXPECT_EQ(ask(peer, words({10, 0, 2, program, 3, 0, 6, 20, 1, 1, 0, 1, 0, 0, 0})),
            (Words{10, 1, 1, 1, 1}));
  EXPECT_EQ(ask(peer, words({11, 0, 2, program, 3, 7, 2, 4, 9, 0, 0})), (Words{11, 1, 1, 1, 2}));
  EXPECT_EQ(server->counters().calls, 11U);
}

TEST_F(TcpTest, CallOverTheCapIsAnsweredAndItsConnectionGoesOn) {
  ServerOptions options;
  options.tcp.record_size_max = 4096;
  start(options);
  RawPeer& peer = connect();
  for (const std::size_t size : {4096U, 5U << 20U}) {
    const Message data(size, std::byte{7});
    EXPECT_EQ(ask(peer, call_of(1, TestService::kLength, opaque(data))),
              (Words{1, 1, 0, 0, 0, 4}))  // GARBAGE_ARGS
        << size;
  }
  // No service sees the part that was kept: this one looks at no arguments.
  EXPECT_EQ(ask(peer, call_of(2, TestService::kNull, Message(9000))), (Words{2, 1, 0, 0, 0, 4}));
  // A procedure that nobody serves is refused as ever.
  const Message unknown = join({raw_call(2, 77), Message(9000)});
  EXPECT_EQ(ask(peer, unknown), (Words{2, 1, 0, 0, 0, 3}));
  EXPECT_EQ(ask(peer, call_of(3, TestService::kLength, opaque(Message(400)))),
            (Words{3, 1, 0, 0, 0, 0, 400}));
  EXPECT_TRUE(ends.empty());
  EXPECT_EQ(server->counters().calls, 5U);
}

// Bytes that are read for nothing take no memory, and no turns from others.
TEST_F(HostileToTcp, EndlessCallDelaysNobodyElse) {
  ServerOptions options;
  options.tcp.record_size_max = 4096;
  start(options);
  RawPeer& bad = connect();
  RawPeer& good = connect();
  ASSERT_TRUE(bad.send(join({words({0x7fffffff}), raw_call(1, TestService::kLength)})));
  const Message data(64U << 10U);
  for (std::uint32_t xid = 1; xid <= 50; ++xid) {
    ASSERT_TRUE(bad.send(data));
    EXPECT_EQ(ask(good, raw_call(xid, 0)).size(), 6U);
    EXPECT_LE(server->memory_in_use(), 64U << 10U);
  }
  EXPECT_TRUE(ends.empty());
  EXPECT_EQ(server->connections(), 2U);
}

TEST_F(HostileToTcp, RecordOverTheCapThatIsNoCallEndsItsConnectionOnly) {
  ServerOptions options;
  options.tcp.record_size_max = 4096;
  start(options);
  RawPeer& good = connect();
  RawPeer& bad = connect();
  EXPECT_EQ(ask(good, raw_call(1, 0)).size(), 6U);
  const std::string_view other = "GET / HTTP/1.1\r\n\r\n";  // "GET " is a mark of 1.2 GB
  ASSERT_TRUE(bad.send(std::as_bytes(std::span(other))));
  EXPECT_TRUE(next(bad).empty());
  EXPECT_EQ(ask(good, raw_call(2, 0)).size(), 6U);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_NE(ends[0].find("record_size_max"), std::string::npos);
  EXPECT_EQ(server->counters().messages_dropped, 1U);
  EXPECT_EQ(server->connections(), 1U);
}

TEST_F(HostileToTcp, PeersThatSendNoCallsLoseTheirConnection) {
  start();
  const Message bad[] = {raw_reply(1), {}, first(raw_call(1, 0), 39), words({1, 7})};
  for (const Message& message : bad) {
    RawPeer& peer = connect();
    ASSERT_TRUE(peer.send(record_of(message)));
    EXPECT_TRUE(next(peer).empty());
  }
  EXPECT_EQ(server->counters().messages_dropped, std::size(bad));
  EXPECT_EQ(service.calls, 0U);
  const std::vector<std::string> expected(std::size(bad), "the peer sent what is no RPC call");
  run_until([&] { return ends.size() == std::size(bad); });
  EXPECT_EQ(ends, expected);
}

TEST_F(HostileToTcp, HalfClosedPeerHasItsAnswersAndThenTheEnd) {
  start();
  RawPeer& peer = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, TestService::kHold))));
  ASSERT_TRUE(peer.send(record_of(raw_call(2, 0))));
  peer.finish();
  EXPECT_EQ(to_words(next(peer)), (Words{2, 1, 0, 0, 0, 0}));
  EXPECT_EQ(server->connections(), 1U);
  service.held.at(0)->succeed();
  service.held.clear();
  EXPECT_EQ(to_words(next(peer)), (Words{1, 1, 0, 0, 0, 0}));
  EXPECT_TRUE(next(peer).empty());
  run_until([this] { return server->connections() == 0; });
  EXPECT_EQ(ends, std::vector<std::string>{"in order"});
}

TEST_F(HostileToTcp, ServiceMayAnswerAPeerThatHasReset) {
  start();
  RawPeer& peer = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, TestService::kHold))));
  run_until([this] { return !service.held.empty(); });
  peer.reset();
  RawPeer& other = connect();
  EXPECT_EQ(ask(other, raw_call(2, 0)).size(), 6U);
  EXPECT_EQ(server->connections(), 2U);  // its call is in service
  service.held.at(0)->succeed();
  service.held.clear();
  run_until([this] { return server->connections() == 1; });
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_NE(ends[0], "in order");
}

TEST_F(HostileToTcp, NoMoreCallsAreTakenThanMayBeInService) {
  ServerOptions options;
  options.tcp.calls_max = 4;
  start(options);
  RawPeer& peer = connect();
  Message stream;
  constexpr std::uint32_t kCalls = 1000;
  for (std::uint32_t xid = 0; xid < kCalls; ++xid) {
    stream = join({stream, record_of(raw_call(xid, TestService::kHold))});
  }
  ASSERT_TRUE(peer.send(stream));
  std::vector<bool> answered(kCalls);
  for (std::uint32_t done = 0; done < kCalls;) {
    run_until([&] { return service.held.size() == 4; });
    for (int round = 0; round < 10; ++round) server->progress();
    ASSERT_EQ(service.held.size(), 4U);
    for (CallContext* context : std::exchange(service.held, {})) context->succeed();
    for (int i = 0; i < 4; ++i, ++done) {
      const Words reply = to_words(next(peer));
      ASSERT_EQ(reply.size(), 6U);
      answered.at(reply[0]) = true;
    }
  }
  EXPECT_EQ(std::ranges::count(answered, true), kCalls);
}

TEST_F(HostileToTcp, PeerThatReadsNoRepliesIsNotServedAnyMore) {
  ServerOptions options;
  options.tcp.unsent_max = 0;
  start(options);
  RawPeer& peer = connect();
  constexpr std::uint32_t kSize = 1U << 20U;
  constexpr std::uint32_t kCalls = 60;  // far more than sockets hold
  for (std::uint32_t xid = 1; xid <= kCalls; ++xid) {
    ASSERT_TRUE(peer.send(record_of(call_of(xid, TestService::kProduce, words({kSize})))));
  }
  std::uint64_t before = 0;
  run_until([&] { return std::exchange(before, service.calls) == service.calls && before > 0; });
  for (int round = 0; round < 100; ++round) server->progress();
  EXPECT_LT(service.calls, kCalls);
  EXPECT_LE(server->memory_in_use(), 8U << 20U);
  const Message expected = opaque(pattern(kSize, kSize));
  for (std::uint32_t xid = 1; xid <= kCalls; ++xid) {
    ASSERT_TRUE(next(peer) == join({raw_reply(xid), expected})) << xid;
  }
}

TEST_F(TcpTest, AnswersMayComeFromOtherThreads) {
  start();
  RawPeer& peer = connect();
  for (std::uint32_t xid = 1; xid <= 50; ++xid) {
    ASSERT_TRUE(peer.send(record_of(raw_call(xid, TestService::kHold))));
  }
  run_until([this] { return service.held.size() == 50; });
  std::thread answering([held = std::exchange(service.held, {})] {
    for (CallContext* context : held) context->succeed();
  });
  for (std::uint32_t xid = 1; xid <= 50; ++xid) EXPECT_EQ(to_words(next(peer)).at(0), xid);
  answering.join();
}

// Holds what must not be executed twice, until it is asked by procedure 2 to answer it.
class HoldingService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kHeld{.is_idempotent = false};
    static constexpr ProcedureTraits kRelease{};
    return procedure == 2 ? &kRelease : &kHeld;
  }
  void call(CallContext& context) override {
    if (context.procedure().number == 2) {
      held.load()->succeed();
      return context.succeed();
    }
    EXPECT_TRUE(held == nullptr);
    ++calls;
    context.results().xdr().u32(4711);
    held = &context;
  }
  std::atomic<CallContext*> held = nullptr;
  std::atomic<int> calls = 0;
};

TEST_F(TcpTest, CallThatIsMadeAgainIsExecutedOnce) {
  start();
  const Message call = call_of(77, TestService::kOnce, words({5, 300'000}));
  const Message expected =
      join({raw_reply(77), words({1}), opaque(pattern(300'000, 5)), words({5})});
  RawPeer& peer = connect();
  ASSERT_TRUE(peer.send(record_of(call)));
  EXPECT_TRUE(next(peer) == expected);
  ASSERT_TRUE(peer.send(record_of(call)));
  EXPECT_TRUE(next(peer) == expected);
  RawPeer& again = connect();
  ASSERT_TRUE(again.send(record_of(call)));
  EXPECT_TRUE(next(again) == expected);
  EXPECT_EQ(service.executed.at(5), 1U);
  EXPECT_EQ(server->counters().cached_replies, 2U);
}

TEST_F(TcpTest, CallThatIsMadeAgainWaitsForTheFirstOne) {
  HoldingService holding;
  start({}, &holding);
  RawPeer& peer = connect();
  RawPeer& again = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, 1))));
  run_until([&] { return holding.held != nullptr; });
  peer.reset();
  ASSERT_TRUE(again.send(record_of(raw_call(1, 1))));
  ASSERT_TRUE(again.send(record_of(raw_call(2, 0))));
  EXPECT_EQ(to_words(next(again)).at(0), 2U);  // it waits behind nothing
  holding.held.load()->succeed();
  EXPECT_EQ(to_words(next(again)), (Words{1, 1, 0, 0, 0, 0, 4711}));
  EXPECT_EQ(holding.calls, 1);
}

TEST_F(TcpTest, CallThatIsMadeAgainWaitsNoLongerThanItsConnection) {
  HoldingService holding;
  start({}, &holding);
  RawPeer& peer = connect();
  RawPeer& again = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, 1))));
  run_until([&] { return holding.held != nullptr; });
  ASSERT_TRUE(again.send(record_of(raw_call(1, 1))));
  EXPECT_EQ(ask(again, raw_call(2, 0)).at(0), 2U);
  again.reset();
  run_until([this] { return server->connections() == 1; });
  holding.held.load()->succeed();
  EXPECT_EQ(to_words(next(peer)).at(0), 1U);
}

// The first connection has its turn before the second, whose call it waits for.
TEST_F(TcpTest, WaitingServerWakesUpForCallsThatWaitForTheSameOne) {
  HoldingService holding;
  start({}, &holding);
  std::thread serving([this] { server->run(); });
  auto again = RawPeer::connect(tcp_address, [] {});
  EXPECT_EQ(ask(*again, raw_call(8, 0)).at(0), 8U);
  auto peer = RawPeer::connect(tcp_address, [] {});
  EXPECT_TRUE(peer->send(record_of(raw_call(1, 1))));
  EXPECT_TRUE(peer->pump_until([&] { return holding.held != nullptr; }));
  EXPECT_TRUE(again->send(record_of(raw_call(1, 1))));
  EXPECT_EQ(ask(*again, raw_call(9, 0)).at(0), 9U);
  EXPECT_TRUE(peer->send(record_of(raw_call(2, 2))));
  EXPECT_EQ(to_words(next(*again)), (Words{1, 1, 0, 0, 0, 0, 4711}));
  EXPECT_EQ(holding.calls, 1);
  server->stop();
  serving.join();
}

TEST_F(TcpTest, WaitingServerServesMoreCallsThanATurnHas) {
  start();
  std::thread serving([this] { server->run(); });
  auto peer = RawPeer::connect(tcp_address, [] {});
  Message stream;
  constexpr std::uint32_t kCalls = 90;  // that are read at once
  for (std::uint32_t xid = 0; xid < kCalls; ++xid) {
    stream = join({stream, record_of(raw_call(xid, 0))});
  }
  EXPECT_TRUE(peer->send(stream));
  EXPECT_EQ(peer->receive(std::size_t{28} * kCalls).size(), std::size_t{28} * kCalls);
  server->stop();
  serving.join();
}

TEST_F(HostileToTcp, HalfRecordsCannotKeepTheMemoryForEver) {
  ServerOptions options;
  options.memory_max = 1U << 20U;
  options.peer_timeout = std::chrono::milliseconds(50);
  start(options);
  std::vector<RawPeer*> greedy;
  for (int i = 0; i < 12; ++i) {
    greedy.push_back(&connect());
    ASSERT_TRUE(greedy.back()->send(join({words({500'000}), Message(200'000)})));
  }
  RawPeer& peer = connect();
  const Message data = pattern(150'000, 1);
  // Refused or dropped it may be while there is no memory; but not for ever.
  run_until([this] { return ends.size() >= 12; });
  RawPeer& later = connect();
  ASSERT_TRUE(later.send(record_of(call_of(1, TestService::kLength, opaque(data)))));
  EXPECT_EQ(to_words(next(later)), (Words{1, 1, 0, 0, 0, 0, 150'000}));
  EXPECT_EQ(ask(peer, raw_call(2, 0)).size(), 6U);
}

// Neither do those that come byte by byte.
TEST_F(HostileToTcp, DripsCannotKeepTheMemoryForEver) {
  ServerOptions options;
  options.memory_max = 1U << 20U;
  options.peer_timeout = std::chrono::milliseconds(200);
  start(options);
  std::vector<RawPeer*> greedy;
  for (int i = 0; i < 6; ++i) {
    greedy.push_back(&connect());
    ASSERT_TRUE(greedy.back()->send(join({words({500'000}), Message(40'000)})));
  }
  run_until([&] {
    for (RawPeer* each : greedy) (void)each->send(Message(1));
    return ends.size() == greedy.size();
  });
}

// Nor do those that send as much as keeps a connection, and not more.
TEST_F(HostileToTcp, RecordsHaveTheirTimeWhateverProgressThePeerMakes) {
  ServerOptions options;
  options.pull_timeout = std::chrono::milliseconds(200);
  options.pull_rate_min = 100U << 20U;
  start(options);
  RawPeer& greedy = connect();
  ASSERT_TRUE(greedy.send(words({900'000})));
  const auto begun = std::chrono::steady_clock::now();
  auto next = begun;
  run_until([&] {
    if (std::chrono::steady_clock::now() >= next) {
      (void)greedy.send(Message(20'000));  // 0.4 s for all of it; the server's progress is 16 KiB
      next += std::chrono::milliseconds(10);
    }
    return !ends.empty();
  });
  EXPECT_GE(std::chrono::steady_clock::now() - begun, options.pull_timeout);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_NE(ends[0].find("pull_timeout"), std::string::npos) << ends[0];
  RawPeer& other = connect();
  EXPECT_EQ(ask(other, raw_call(2, 0)).size(), 6U);
}

TEST_F(TcpTest, ListensNowhereElseOnceItStops) {
  start();
  server->stop();
  const auto late = server->add_listener("tcp://127.0.0.1:0");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kCanceled);
}

// A call that waits for the same one is given up with its connection, in the same turn.
TEST_F(TcpTest, DuplicateOfAPeerThatBreaksTheRulesEndsAtOnce) {
  HoldingService holding;
  start({}, &holding);
  RawPeer& peer = connect();
  RawPeer& again = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, 1))));
  run_until([&] { return holding.held != nullptr; });
  ASSERT_TRUE(again.send(record_of(raw_call(1, 1))));
  EXPECT_EQ(ask(again, raw_call(2, 0)).at(0), 2U);
  ASSERT_TRUE(again.send(record_of(Message(8))));  // no call
  while (server->connections() > 1) {              // only what wakes the server counts
    pollfd fd{server->wait_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&fd, 1, 2'000), 1) << "the connection stays until something else happens";
    server->progress();
  }
  holding.held.load()->succeed();
}

TEST_F(TcpTest, StopAnswersWhatIsInServiceAndTakesNoMore) {
  start();
  RawPeer& peer = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, TestService::kHold))));
  run_until([this] { return !service.held.empty(); });
  server->stop();
  server->progress();
  EXPECT_FALSE(server->drained());
  ASSERT_TRUE(peer.send(record_of(raw_call(2, 0))));
  service.held.at(0)->succeed();
  service.held.clear();
  EXPECT_EQ(to_words(next(peer)).at(0), 1U);
  EXPECT_TRUE(next(peer).empty());
  peers.clear();
  run_until([this] { return server->drained(); });
  EXPECT_EQ(RawPeer::connect(tcp_address, [] {}), nullptr);
}

TEST_F(TcpTest, StopDoesNotWaitForPeersThatStayConnected) {
  start();
  RawPeer& peer = connect();
  EXPECT_EQ(ask(peer, raw_call(1, 0)).size(), 6U);
  ASSERT_TRUE(peer.send(record_of(raw_call(2, TestService::kHold))));
  run_until([this] { return !service.held.empty(); });
  server->stop();
  for (int round = 0; round < 3; ++round) server->progress();
  EXPECT_FALSE(server->drained());
  service.held.at(0)->succeed();
  service.held.clear();
  for (int round = 0; round < 3; ++round) server->progress();
  EXPECT_TRUE(server->drained());
  server.reset();
  auto gone = std::move(peers.back());  // whose pump is the server
  EXPECT_EQ(gone->waiting(), 28U);
  peers.clear();
}

TEST_F(TcpTest, StopCutsWhatIsNotAnsweredInTime) {
  ServerOptions options;
  options.drain_timeout = std::chrono::milliseconds(20);
  start(options);
  RawPeer& peer = connect();
  ASSERT_TRUE(peer.send(record_of(raw_call(1, TestService::kHold))));
  run_until([this] { return !service.held.empty(); });
  server->stop();
  server->run();
  EXPECT_TRUE(next(peer).empty());
}

TEST_F(TcpTest, ConnectionsOfBothTransportsAreCountedTogether) {
  ServerOptions options;
  options.connections_max = 2;
  start(options);
  EXPECT_EQ(ask(connect(), raw_call(1, 0)).size(), 6U);
  EXPECT_EQ(ask(connect(), raw_call(2, 0)).size(), 6U);
  RawPeer& third = connect();
  EXPECT_TRUE(next(third).empty());
  EXPECT_EQ(server->connections(), 2U);
}

TEST_F(TcpTest, WaitingServerWakesUpForBothTransports) {
  start();
  std::thread serving([this] { server->run(); });
  {
    auto peer = RawPeer::connect(tcp_address, [] {});
    for (std::uint32_t xid = 1; xid < 50; ++xid) {
      EXPECT_EQ(ask(*peer, raw_call(xid, 0)).size(), 6U);
    }
    ClientOptions options;
    options.provider.name = "siwarp";
    auto client = Client::connect("rdma://" + std::string(server->address()), options);
    ASSERT_TRUE(client);
    for (int i = 0; i < 50; ++i) {
      auto call = client->prepare({TestService::kProgram, TestService::kVersion, 0});
      EXPECT_TRUE(client->call(std::move(*call)));
    }
  }
  server->stop();
  serving.join();
}

// --- Without RDMA ------------------------------------------------------------------------------

TEST(TcpOnly, ServerNeedsNoProvider) {
  TestService service;
  auto server = Server::listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(server) << server.error().message();
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  EXPECT_EQ(server->provider_name(), "tcp");
  const auto adopted = server->adopt(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().code, Errc::kUnsupported);
  const auto second = server->add_listener("tcp://127.0.0.1:0");
  ASSERT_TRUE(second);
  std::thread serving([&] { server->run(); });
  for (const std::string& address : {std::string(server->address()), *second}) {
    auto peer = RawPeer::connect(address, [] {});
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(peer->send(record_of(raw_call(1, 0))));
    EXPECT_EQ(peer->receive(28).size(), 28U);
  }
  server->stop();
  serving.join();
}

TEST(TcpOnly, RdmaMayComeLater) {
  TestService service;
  ServerOptions options;
  options.provider.name = "siwarp";
  auto server = Server::listen("tcp://127.0.0.1:0", options);
  ASSERT_TRUE(server);
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  const auto rdma = server->add_listener("rdma://127.0.0.1:0");
  ASSERT_TRUE(rdma) << rdma.error().message();
  EXPECT_EQ(server->provider_name(), "siwarp");
  std::thread serving([&] { server->run(); });
  ClientOptions client_options;
  client_options.provider.name = "siwarp";
  {
    auto client = Client::connect("rdma://" + *rdma, client_options);
    ASSERT_TRUE(client);
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, 0});
    EXPECT_TRUE(client->call(std::move(*call)));
    auto peer = RawPeer::connect(server->address(), [] {});
    ASSERT_TRUE(peer->send(record_of(raw_call(1, 0))));
    EXPECT_EQ(peer->receive(28).size(), 28U);
  }
  server->stop();
  serving.join();
}

TEST(TcpOnly, AddressesAreJudged) {
  for (const char* url : {"tcp://127.0.0.1", "tcp://:1", "tcp://127.0.0.1:x", "tcp://::1:5"}) {
    const auto server = Server::listen(url);
    ASSERT_FALSE(server) << url;
    EXPECT_EQ(server.error().code, Errc::kBadUrl) << url;
  }
  auto server = Server::listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(server);
  const auto taken = server->add_listener("tcp://" + std::string(server->address()));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kNoResources);
  EXPECT_NE(taken.error().cause.find("in use"), std::string::npos);
}

TEST(TcpOnly, ProviderWithoutDescriptorsSaysThatItCannot) {
  RpcPair pair(make_sim(1));
  const auto listening = pair.server->add_listener("tcp://127.0.0.1:0");
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().code, Errc::kUnsupported);
  EXPECT_EQ(pair.finish(*pair.prepare(TestService::kNull), [](Reply&) {}), std::nullopt);
}

// Asks for what only RDMA has.
class CallingBack final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{};
    return &kAny;
  }
  void call(CallContext& context) override {
    const auto client = Backward::client_of(context);
    failed_with = client ? Errc::kCanceled : client.error().code;
    context.succeed();
  }
  std::optional<Errc> failed_with;
};

TEST_F(TcpTest, CallsInTheReverseDirectionAreUnsupported) {
  CallingBack service_back;
  ServerOptions options;
  options.backward_calls = 4;
  start(options, &service_back);
  EXPECT_EQ(ask(connect(), raw_call(1, 1)).size(), 6U);
  EXPECT_EQ(service_back.failed_with, Errc::kUnsupported);
}

TEST_F(TcpTest, ConnectionsAreNotConfiguredOverTcp) {
  ServerOptions options;
  options.connection.profile = Profile::kRfc5666;
  start(options);
  RawPeer& peer = connect();
  EXPECT_EQ(ask(peer, words({1, 0, 2, 100417, 1, 1, 0, 0, 0, 0, 4096, 16, 4})).at(5), 3U);
  EXPECT_EQ(ask(peer, raw_call(2, 0)).size(), 6U);
}

}  // namespace
}  // namespace rpcrdma::test
