// A server's connections over TCP have turns when they have news, whatever makes the news.
#include "rpc/serve/tcp_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "posix/address.h"
#include "posix/fd.h"
#include "rpc/serve/server_impl.h"
#include "rpc/serve/server_state.h"
#include "rpc/serve/serving_for_test.h"
#include "rpcrdma/client.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::uint32_t kProgram = 4711, kVersion = 1, kHold = 1, kAnswer = 2;

class HoldService final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kHolds{
        .number = kHold, .bulk_argument_size_max = 1U << 20U, .is_idempotent = true};
    static constexpr ProcedureTraits kAnswers{
        .number = kAnswer, .bulk_argument_size_max = 1U << 20U, .is_idempotent = true};
    return procedure == kHold ? &kHolds : &kAnswers;
  }
  void call(CallContext& context) override {
    if (context.procedure().number == kAnswer) return context.succeed();
    held.push_back(&context);
  }
  void answer() {
    for (CallContext* call : std::exchange(held, {})) call->succeed();
  }
  // Answers the oldest with more than sockets take.
  void answer_at_length() {
    CallContext* const oldest = held.front();
    held.erase(held.begin());
    oldest->results().bulk(long_results_);
    oldest->succeed();
  }

  std::vector<CallContext*> held;

 private:
  const std::vector<std::byte> long_results_ = std::vector<std::byte>(16U << 20U);
};

class TcpTurnsTest : public ::testing::Test {
 protected:
  void start(const ServerOptions& options = {}) {
    state_ = std::make_unique<ServerState>(options);
    ASSERT_TRUE(state_->registry.add(kProgram, kVersion, service_));
    server_ = std::make_unique<ServerImpl>(*state_, nullptr, nullptr);
    auto address = server_->listen_tcp("127.0.0.1:0");
    ASSERT_TRUE(address) << address.error().message();
    url_ = "tcp://" + *address;
  }
  Client& connect() {
    auto client = Client::begin_connect(url_);
    EXPECT_TRUE(client) << client.error().message();
    Client& added = *clients_.emplace_back(std::make_unique<Client>(std::move(*client)));
    run_until([&] { return added.connected(); });
    call(added, 0);
    run_until([this] { return ended_ == begun_; });
    return added;
  }
  void call(Client& client, std::uint32_t procedure, std::size_t size = 0) {
    auto call = client.prepare({kProgram, kVersion, procedure});
    ASSERT_TRUE(call);
    if (size > 0) call->arguments().bulk(Bytes(data_).first(size));
    ++begun_;
    ASSERT_TRUE(client.start(std::move(*call), [this](Expected<Reply, Error> reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      ++ended_;
    }));
  }
  // Connects another host, which reads nothing.
  posix::Fd connect_from(const std::string& host) const {
    posix::Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
    const int room = 4096;
    EXPECT_EQ(::setsockopt(socket.value(), SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    const posix::Address from = *posix::parse_address(host + ":0");
    EXPECT_EQ(::bind(socket.value(), from.pointer(), from.size), 0);
    const posix::Address to = *posix::parse_address(url_.substr(url_.find("//") + 2));
    EXPECT_EQ(::connect(socket.value(), to.pointer(), to.size), 0);
    return socket;
  }
  // Sends a Call as far as the server takes it.
  void send(const posix::Fd& socket, std::uint32_t procedure, std::size_t size) const {
    oncrpc::CallHeader header;
    header.xid = Xid{4711};
    header.procedure = {kProgram, kVersion, procedure};
    const MessageForTest message = encode_for_test(header);
    const std::size_t arguments = size > 0 ? 4 + size : 0;
    std::vector<std::byte> record(4 + message.size() + arguments);
    xdr::Writer writer(record);
    writer.u32(0x80000000U | static_cast<std::uint32_t>(message.size() + arguments));
    writer.opaque_fixed(message);
    if (size > 0) writer.u32(static_cast<std::uint32_t>(size));
    Bytes rest(record);
    for (int idle = 0; !rest.empty() && idle < 1000;) {
      const ssize_t sent = ::send(socket.value(), rest.data(), rest.size(), MSG_DONTWAIT);
      idle = sent > 0 ? 0 : idle + 1;
      if (sent > 0) rest = rest.subspan(static_cast<std::size_t>(sent));
      server_->progress();
    }
  }
  void run_until(const std::function<bool()>& is_done) {
    for (int rounds = 0; !is_done(); ++rounds) {
      ASSERT_LT(rounds, 1'000'000) << "it does not happen";
      for (const auto& client : clients_) client->progress();
      server_->progress();
    }
  }
  void run_rounds(int count) {
    for (int i = 0; i < count; ++i) server_->progress();
  }

  HoldService service_;
  std::unique_ptr<ServerState> state_;
  std::unique_ptr<ServerImpl> server_;
  std::string url_;
  std::vector<std::unique_ptr<Client>> clients_;
  const std::vector<std::byte> data_ = std::vector<std::byte>(1U << 20U);
  int begun_ = 0, ended_ = 0;
};

TEST(RestOfRecord, IsLeftWhenItsBytesComeMoreSlowlyThanTheyMust) {
  constexpr std::uint32_t kRate = 1000;
  const Instant begin = Instant(std::chrono::hours(1));
  const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  RestOfRecord rest;
  EXPECT_FALSE(rest.is_left(begin, kRate)) << "there is none";
  rest.note(begin, true, false, 100);
  EXPECT_FALSE(rest.is_left(at(999), kRate));
  EXPECT_TRUE(rest.is_left(at(1000), kRate));
  rest.note(at(900), true, false, 600);  // 500 bytes, for which there is half a second
  EXPECT_FALSE(rest.is_left(at(1499), kRate));
  EXPECT_TRUE(rest.is_left(at(1500), kRate));
  EXPECT_TRUE(rest.is_left(at(1000), 0));
  rest.note(at(1400), true, true, 700);  // another one
  EXPECT_FALSE(rest.is_left(at(2399), kRate));
  rest.note(at(1600), false, false, 800);
  EXPECT_FALSE(rest.is_left(at(9000), kRate));
}

// Each shard makes room within its part before the bound of all is met.
TEST(ConnectionsOverTcp, AreAsManyForAllShardsAsTheServerMayHave) {
  constexpr std::size_t kMost = 1000, kOnTheirWay = 128;
  ServerOptions options;
  options.shards = 4;
  options.tcp.connections_max = kMost;
  ServerState state(options);
  std::size_t admitted = 0;
  while (admitted < 2 * kMost && state.log.admit("192.0.2.1:7", ConnectionLog::Transport::kTcp)) {
    ++admitted;
  }
  EXPECT_GE(admitted, kMost);
  EXPECT_LE(admitted, kMost + kOnTheirWay);
}

TEST_F(TcpTurnsTest, IdleConnectionsHaveNoneWhileAnotherOneMakesCalls) {
  constexpr int kCalls = 20;
  start();
  for (int i = 0; i < 50; ++i) connect();
  Client& client = *clients_.front();
  const std::uint64_t before = server_->turns();
  for (int i = 0; i < kCalls; ++i) {
    call(client, 0);
    run_until([this] { return ended_ == begun_; });
  }
  // One for each Call that comes, and perhaps one for news that the call before it has left.
  EXPECT_LE(server_->turns() - before, 2U * kCalls + 1);
}

TEST_F(TcpTurnsTest, NobodyHasAnyWhileNothingHappens) {
  start();
  for (int i = 0; i < 3; ++i) connect();
  run_rounds(10);
  const std::uint64_t before = server_->turns();
  run_rounds(100);
  EXPECT_EQ(server_->turns(), before);
}

TEST_F(TcpTurnsTest, AnswerOutsideOfTheTurnIsSent) {
  start();
  Client& client = connect();
  connect();
  call(client, kHold);
  run_until([this] { return service_.held.size() == 1; });
  run_rounds(10);
  const std::uint64_t before = server_->turns();
  service_.answer();
  run_until([this] { return ended_ == begun_; });
  EXPECT_LE(server_->turns() - before, 2U);
}

TEST_F(TcpTurnsTest, ConnectionWithMoreCallsThanATurnIsForHasFurtherTurns) {
  constexpr int kCalls = 60;  // of which a turn takes 32
  ServerOptions options;
  options.tcp.calls_max = kCalls;
  start(options);
  Client& client = connect();
  for (int i = 0; i < kCalls; ++i) call(client, kHold);
  client.progress();
  run_until([this] { return service_.held.size() == kCalls; });
  service_.answer();
  run_until([this] { return ended_ == begun_; });
}

TEST_F(TcpTurnsTest, ConnectionWithoutMemoryGoesOnWhenSomeComesBack) {
  constexpr std::size_t kSize = 500'000;  // of which the pool has not twice as many
  ServerOptions options;
  options.memory_max = 1U << 20U;
  start(options);
  Client& first = connect();
  Client& second = connect();
  call(first, kHold, kSize);
  run_until([this] { return service_.held.size() == 1; });
  call(second, kHold, kSize);
  // Until the socket is full, news of it would give the connection its turns.
  std::uint64_t received = 0;
  for (int quiet_rounds = 0; quiet_rounds < 2000; ++quiet_rounds) {
    second.progress();
    server_->progress();
    const std::uint64_t now = server_->statistics(false).counters.wire_bytes_received;
    if (std::exchange(received, now) != now) quiet_rounds = 0;
  }
  EXPECT_EQ(service_.held.size(), 1U);
  service_.answer();
  run_until([this] { return service_.held.size() == 1; });
  service_.answer();
  run_until([this] { return ended_ == begun_; });
}

// When half of each record is here, none may have enough memory for its rest.
TEST_F(TcpTurnsTest, RecordsOfWhichNoneHasEnoughMemoryAreCompletedOneAfterTheOther) {
  constexpr std::size_t kSize = 280'000, kClients = 8;
  ServerOptions options;
  options.memory_max = 1U << 20U;
  start(options);
  for (std::size_t i = 0; i < kClients; ++i) connect();
  for (const auto& client : clients_) call(*client, kAnswer, kSize);
  run_until([this] { return ended_ == begun_; });
}

// Its record is not read on until the peer takes its replies, and nor are those of others then.
TEST_F(TcpTurnsTest, HostThatLeavesItsRepliesHasNoTurnForMemory) {
  constexpr std::size_t kSize = 280'000, kClients = 8;
  ServerOptions options;
  options.memory_max = 1U << 20U;
  options.tcp.unsent_max = 1U << 20U;
  start(options);
  const posix::Fd other = connect_from("127.0.0.2");
  send(other, kHold, 0);
  run_until([this] { return service_.held.size() == 1; });
  call(connect(), kHold, 500'000);
  run_until([this] { return service_.held.size() == 2; });
  send(other, kHold, 500'000);  // of which the pool has not twice as many
  run_rounds(1000);
  service_.answer_at_length();
  run_rounds(1000);
  service_.answer();
  for (std::size_t i = 0; i < kClients; ++i) connect();
  for (const auto& client : clients_) call(*client, kAnswer, kSize);
  run_until([this] { return ended_ == begun_; });
}

TEST_F(TcpTurnsTest, ConnectionThatFindsNoMemoryHasOneWhenItsOwnTurnGivesSomeBack) {
  ServerOptions options;
  options.memory_max = 1U << 20U;
  start(options);
  Client& client = connect();
  for (int i = 0; i < 4; ++i) call(client, kAnswer, 300'000);
  run_until([this] { return ended_ == begun_; });
}

TEST_F(TcpTurnsTest, IdleConnectionIsClosedWhenItsTimeIsOver) {
  ServerOptions options;
  options.tcp.idle_timeout = std::chrono::milliseconds(20);
  start(options);
  // Without a call, since a slow machine may find it idle before.
  clients_.push_back(std::make_unique<Client>(std::move(*Client::begin_connect(url_))));
  run_until([this] { return state_->log.connections() == 1 || clients_[0]->ended(); });
  run_until([this] { return state_->log.connections() == 0; });
}

TEST_F(TcpTurnsTest, ConnectionsAreClosedWhenTheServerStops) {
  start();
  Client& busy = connect();
  for (int i = 0; i < 3; ++i) connect();
  call(busy, kHold);
  run_until([this] { return service_.held.size() == 1; });
  server_->stop();
  run_until([this] { return state_->log.connections() == 1; });
  EXPECT_FALSE(server_->drained());
  service_.answer();
  run_until([this] { return server_->drained(); });
  run_until([this] { return ended_ == begun_; });
}

}  // namespace
}  // namespace rpcrdma::rpc
