// A client over TCP against servers that misbehave, in raw bytes.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "posix/fd.h"
#include "posix/reactor.h"
#include "rpcrdma/client.h"
#include "support/checked_reply.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "tcp/record.h"

namespace rpcrdma::test {
namespace {

class TcpClientTest : public ::testing::Test {
 protected:
  void connect(const ClientOptions& options = {}) {
    auto client = Client::begin_connect("tcp://" + listener_.address(), options);
    ASSERT_TRUE(client) << client.error().message();
    client_.emplace(std::move(*client));
    peer_ = listener_.accept();
    ASSERT_TRUE(peer_);
    ASSERT_TRUE(peer_->pump_until([&] { return client_->connected(); }));
  }
  // Its end goes to results_ or errors_; `arguments` are a bulk item if there are any.
  void start(Bytes arguments = {}, std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 1});
    ASSERT_TRUE(call) << call.error().message();
    if (!arguments.empty()) call->arguments().bulk(arguments);
    call->time_out_after(timeout);
    const auto started = client_->start(std::move(*call), [this](Expected<Reply, Error> reply) {
      if (reply) {
        results_.push_back(read(*reply)->xdr().u32("result"));
      } else {
        errors_.push_back(reply.error());
      }
    });
    ASSERT_TRUE(started) << started.error().message();
  }
  std::size_t ended() const { return results_.size() + errors_.size(); }
  // The XID of the next Call, which has no arguments.
  std::uint32_t next_xid() {
    const Message call = peer_->receive(tcp::kMarkSize + 40);
    return call.size() == tcp::kMarkSize + 40 ? to_words(call).at(1) : 0;
  }
  Message answer(std::uint32_t xid, std::uint32_t result) {
    return join({raw_reply(xid), words({result})});
  }
  bool run_until(const std::function<bool()>& condition) { return peer_->pump_until(condition); }

  std::vector<std::uint32_t> results_;
  std::vector<Error> errors_;  // outlives the client, whose end fails its calls
  RawListener listener_{[this] { pump(); }};
  void pump() {
    if (client_) client_->progress();
  }
  std::optional<Client> client_;
  std::unique_ptr<RawPeer> peer_;
};

TEST_F(TcpClientTest, RepliesMayComeInAnyOrder) {
  connect();
  start();
  start();
  const std::uint32_t first = next_xid();
  const std::uint32_t second = next_xid();
  ASSERT_TRUE(peer_->send(join({record(answer(second, 2)), record(answer(first, 1))})));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  EXPECT_EQ(results_, (std::vector<std::uint32_t>{2, 1}));
}

TEST_F(TcpClientTest, RepliesToNoCallAndCallsOfTheServerAreDropped) {
  connect();
  start();
  const std::uint32_t xid = next_xid();
  ASSERT_TRUE(
      peer_->send(join({record(answer(xid + 1, 9)), record(raw_call(xid, 1)), record({}),
                        record(words({xid})), record(answer(xid, 5)), record(answer(xid, 6))})));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{5});
  ASSERT_TRUE(run_until([&] { return client_->counters().messages_dropped == 5; }));
  EXPECT_TRUE(client_->connected());
}

TEST_F(TcpClientTest, ReplyThatIsNoneFailsItsCallOnly) {
  connect();
  start();
  start();
  const std::uint32_t first = next_xid();
  const std::uint32_t second = next_xid();
  ASSERT_TRUE(peer_->send(join({record(words({first, 1, 7})), record(answer(second, 2))})));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kBadReply);
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
}

// More of them than a round takes.
TEST_F(TcpClientTest, RepliesThatAreHereAreInTimeHoweverLateTheyAreTaken) {
  constexpr std::uint32_t kCalls = 100;
  connect();
  start();
  const std::uint32_t xid = next_xid();
  ASSERT_TRUE(peer_->send(record(answer(xid, 0))));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  constexpr std::chrono::milliseconds kTimeout{200};
  Message replies;
  for (std::uint32_t i = 1; i <= kCalls; ++i) {
    start({}, kTimeout);
    replies = join({replies, record(answer(xid + i, i))});
  }
  ASSERT_TRUE(peer_->send(replies));
  const Instant late = posix::Reactor::now() + kTimeout;
  while (posix::Reactor::now() < late) ::sched_yield();
  ASSERT_TRUE(run_until([&] { return ended() == 1 + kCalls; }));
  EXPECT_EQ(errors_.size(), 0U);
}

// The caller's memory is lent until the call has ended: it must not end while it is sent from.
TEST_F(TcpClientTest, ReplyThatComesBeforeTheCallHasGoneWaitsForIt) {
  connect();
  const std::vector<std::byte> data = pattern(16U << 20U, 1);  // more than sockets hold
  start(data);
  const Message begin = peer_->receive(tcp::kMarkSize + 44);
  ASSERT_EQ(begin.size(), tcp::kMarkSize + 44);
  const std::uint32_t xid = to_words(begin).at(1);
  ASSERT_TRUE(peer_->send(record(answer(xid, 3))));
  for (int i = 0; i < 50; ++i) client_->progress();
  EXPECT_EQ(ended(), 0U);
  EXPECT_EQ(peer_->receive(data.size()), data);
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{3});
}

TEST_F(TcpClientTest, TimeOutCostsOthersNothing) {
  connect();
  start({}, std::chrono::milliseconds(1));
  const std::uint32_t late = next_xid();
  start();
  const std::uint32_t other = next_xid();
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kTimedOut);
  ASSERT_TRUE(peer_->send(join({record(answer(late, 1)), record(answer(other, 2))})));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
}

TEST_F(TcpClientTest, ServerThatAlwaysHasOneMoreByteIsGivenUpInTime) {
  connect();
  start({}, std::chrono::milliseconds(50));
  (void)next_xid();
  ASSERT_TRUE(peer_->send(words({tcp::kLastFragment | 0xfffff})));
  ASSERT_TRUE(run_until([&] {
    const std::byte more{};
    return !peer_->send({&more, 1}) || ended() == 1;
  }));
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kTimedOut);
}

TEST_F(TcpClientTest, TimeOutOfACallThatTheServerDoesNotTakeEndsTheConnection) {
  connect();
  const std::vector<std::byte> data(16U << 20U);
  start(data, std::chrono::milliseconds(1));
  start();
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  ASSERT_EQ(errors_.size(), 2U);
  EXPECT_EQ(errors_[0].code, Errc::kTimedOut);
  EXPECT_TRUE(client_->ended());
}

TEST_F(TcpClientTest, RecordOverTheLimitThatIsNoReplyEndsTheConnectionAndSaysWhy) {
  ClientOptions options;
  options.tcp.record_size_max = 1000;
  connect(options);
  start();
  (void)next_xid();
  ASSERT_TRUE(peer_->send(record(Message(1001))));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kBadReply);
  EXPECT_NE(errors_[0].message().find("record_size_max, 1000"), std::string::npos);
}

TEST_F(TcpClientTest, ReplyOverTheLimitFailsItsCallAlone) {
  ClientOptions options;
  options.tcp.record_size_max = 1000;
  connect(options);
  start();
  start();
  const std::uint32_t first = next_xid(), second = next_xid();
  Message longer = answer(first, 1);
  longer.resize(100'000);
  ASSERT_TRUE(peer_->send(join({record(longer), record(answer(second, 2))})));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kBadReply);
  EXPECT_NE(errors_[0].message().find("record_size_max, 1000"), std::string::npos);
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
  start();
  ASSERT_TRUE(peer_->send(record(answer(next_xid(), 3))));
  ASSERT_TRUE(run_until([&] { return ended() == 3; }));
  EXPECT_EQ(results_, (std::vector<std::uint32_t>{2, 3})) << "the connection is the same";
}

TEST_F(TcpClientTest, EndOfTheConnectionFailsItsCallsOnce) {
  for (const bool is_reset : {false, true}) {
    SCOPED_TRACE(is_reset);
    errors_.clear();
    connect();
    start();
    start();
    (void)next_xid();
    is_reset ? peer_->reset() : peer_->finish();
    ASSERT_TRUE(run_until([&] { return ended() == 2; }));
    for (const Error& error : errors_) EXPECT_EQ(error.code, Errc::kConnectionLost);
    EXPECT_TRUE(client_->ended());
    EXPECT_FALSE(client_->prepare({1, 1, 1}));
    EXPECT_EQ(client_->calls_in_flight(), 0U);
    client_.reset();
  }
}

TEST_F(TcpClientTest, CloseCancelsCalls) {
  connect();
  start();
  client_->close();
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(errors_.at(0).code, Errc::kCanceled);
}

TEST_F(TcpClientTest, DestroyingItEndsItsCalls) {
  connect();
  start();
  client_.reset();
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_EQ(errors_[0].code, Errc::kCanceled);
}

TEST_F(TcpClientTest, SendsTheCredentialThatItWasGiven) {
  connect();
  AuthSys sys;
  sys.uid = 1234;
  client_->identity().use(sys);
  start();
  const Message call = peer_->receive(tcp::kMarkSize + 32);
  ASSERT_EQ(call.size(), tcp::kMarkSize + 32);
  EXPECT_EQ(to_words(call).at(7), 1U) << "AUTH_SYS";
}

TEST_F(TcpClientTest, ReconnectsAndSendsItsCallsAgain) {
  ClientOptions options;
  options.reconnect.enabled = true;
  connect(options);
  start();
  start();
  const std::uint32_t first = next_xid();
  const std::uint32_t second = next_xid();
  ASSERT_TRUE(peer_->send(record(answer(second, 2))));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  peer_->reset();
  peer_ = listener_.accept();
  ASSERT_TRUE(peer_);
  EXPECT_EQ(next_xid(), first);
  start();
  const std::uint32_t third = next_xid();
  ASSERT_TRUE(peer_->send(join({record(answer(first, 1)), record(answer(third, 3))})));
  ASSERT_TRUE(run_until([&] { return ended() == 3; }));
  EXPECT_EQ(results_, (std::vector<std::uint32_t>{2, 1, 3}));
  EXPECT_EQ(client_->counters().calls, 4U) << "one of them over both connections";
}

TEST_F(TcpClientTest, ReconnectsWithoutSendingItsCallsAgain) {
  ClientOptions options;
  options.reconnect.enabled = true;
  options.reconnect.repeats_calls = false;
  connect(options);
  start();
  (void)next_xid();
  peer_->reset();
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(errors_.at(0).code, Errc::kConnectionLost);
  EXPECT_FALSE(client_->ended());
  peer_ = listener_.accept();
  ASSERT_TRUE(peer_);
  ASSERT_TRUE(run_until([&] { return client_->connected(); }));
  start();
  ASSERT_TRUE(peer_->send(record(answer(next_xid(), 2))));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
}

TEST_F(TcpClientTest, WithReconnectionACallThatTheServerDoesNotTakeFailsAlone) {
  ClientOptions options;
  options.reconnect.enabled = true;
  connect(options);
  const std::vector<std::byte> data(16U << 20U);
  start(data, std::chrono::milliseconds(1));
  start();
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(errors_.at(0).code, Errc::kTimedOut);
  EXPECT_EQ(errors_.at(0).cause, "the server has not taken a call within its time");
  peer_ = listener_.accept();
  ASSERT_TRUE(peer_);
  ASSERT_TRUE(peer_->send(record(answer(next_xid(), 2))));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
}

// A call that has time left has not timed out, though its connection went for one that has.
TEST_F(TcpClientTest, CallBesideOneThatTheServerDoesNotTakeIsLost) {
  connect();
  const std::vector<std::byte> data(16U << 20U);
  start(data, std::chrono::milliseconds(1));
  start();
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  EXPECT_EQ(errors_.at(0).code, Errc::kTimedOut);
  EXPECT_EQ(errors_.at(1).code, Errc::kConnectionLost);
  EXPECT_EQ(errors_.at(1).cause,
            "this side ended it: the server has not taken a call within its time");
}

TEST_F(TcpClientTest, TakesTheNextServerOfAListWhenOneIsGone) {
  auto first = std::make_unique<RawListener>([this] { pump(); });
  RawListener other([this] { pump(); });
  ClientOptions options;
  options.reconnect.enabled = true;
  auto client = Client::begin_connect("tcp://" + first->address() + "," + other.address(), options);
  ASSERT_TRUE(client) << client.error().message();
  client_.emplace(std::move(*client));
  peer_ = first->accept();
  ASSERT_TRUE(peer_);
  ASSERT_TRUE(run_until([&] { return client_->connected(); }));
  start();
  const std::uint32_t xid = next_xid();
  first.reset();
  peer_->finish();
  peer_ = other.accept();
  ASSERT_TRUE(peer_);
  EXPECT_EQ(client_->connection().peer_address, other.address());
  EXPECT_EQ(next_xid(), xid);
}

TEST_F(TcpClientTest, TriesTheFirstConnectionAgainUntilOneOfTheServersIsThere) {
  auto gone = std::make_unique<RawListener>([this] { pump(); });
  const std::string address = gone->address();
  gone.reset();
  ClientOptions options;
  options.reconnect.enabled = true;
  options.reconnect.retries_first = true;
  const std::string url = "tcp://" + address + "," + listener_.address();
  EXPECT_TRUE(Client::connect("tcp://" + address, options).error().code == Errc::kRefused);
  auto client = Client::begin_connect(url, options);
  ASSERT_TRUE(client) << client.error().message();
  client_.emplace(std::move(*client));
  start();  // waits for the connection
  peer_ = listener_.accept();
  ASSERT_TRUE(peer_);
  ASSERT_TRUE(peer_->send(record(answer(next_xid(), 2))));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
}

TEST_F(TcpClientTest, WithReconnectionARecordOverTheLimitFailsAtOnce) {
  ClientOptions options;
  options.reconnect.enabled = true;
  options.tcp.record_size_max = 1000;
  connect(options);
  start();
  (void)next_xid();
  ASSERT_TRUE(peer_->send(record(Message(1001))));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(errors_.at(0).code, Errc::kBadReply);
  start();
  peer_ = listener_.accept();
  ASSERT_TRUE(peer_);
  ASSERT_TRUE(peer_->send(record(answer(next_xid(), 2))));
  ASSERT_TRUE(run_until([&] { return ended() == 2; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{2});
}

TEST_F(TcpClientTest, RefusesWhatOnlyRdmaHas) {
  ClientOptions backward;
  backward.backward_calls = 1;
  const auto refused = Client::begin_connect("tcp://" + listener_.address(), backward);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  connect();
  std::vector<std::byte> memory(100);
  const auto registered = client_->register_memory(memory);
  ASSERT_FALSE(registered);
  EXPECT_EQ(registered.error().code, Errc::kUnsupported);
  EXPECT_EQ(client_->connection().provider_name, "tcp");
}

TEST_F(TcpClientTest, MemoryOfAReplyWakesTheNextOne) {
  ClientOptions options;
  options.memory_max = 1U << 20U;
  connect(options);
  std::vector<Reply> held;
  for (int i = 0; i < 2; ++i) {
    auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 1});
    ASSERT_TRUE(call);
    ASSERT_TRUE(client_->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      held.push_back(std::move(*reply));
    }));
  }
  const std::uint32_t first = next_xid();
  const std::uint32_t second = next_xid();
  for (const std::uint32_t xid : {first, second}) {
    ASSERT_TRUE(peer_->send(record(join({raw_reply(xid), Message(300'000)}))));
  }
  ASSERT_TRUE(run_until([&] { return held.size() == 1; }));
  for (int i = 0; i < 200; ++i) client_->progress();
  ASSERT_EQ(held.size(), 1U) << "there is memory for one";
  held.clear();
  pollfd fd{client_->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 5'000), 1);
  ASSERT_TRUE(run_until([&] { return held.size() == 1; }));
}

// Over RDMA a call reserves the memory of its reply; over TCP the calls may have taken all.
TEST_F(TcpClientTest, ReplyHasMemoryWhenCallsHaveTakenAll) {
  ClientOptions options;
  options.memory_max = 1U << 20U;
  connect(options);
  const Procedure procedure{TestService::kProgram, TestService::kVersion, 1};
  std::vector<Call> unused;
  start();
  for (;;) {
    auto call = client_->prepare(procedure, 100'000);
    if (!call) break;
    unused.push_back(std::move(*call));
  }
  ASSERT_FALSE(unused.empty());
  const Message padding(400'000);
  ASSERT_TRUE(peer_->send(record(join({answer(next_xid(), 7), padding}))));
  ASSERT_TRUE(run_until([&] { return ended() == 1; }));
  EXPECT_EQ(results_, std::vector<std::uint32_t>{7});
}

// A socket whose queue is full answers no more attempts.
class FullSocket {
 public:
  FullSocket() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(socket_.value(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_.value(), 0), 0);
    EXPECT_EQ(::getsockname(socket_.value(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    for (int i = 0; i < 8; ++i) {
      queued_.push_back(std::move(*Client::begin_connect("tcp://" + address_)));
    }
  }
  const std::string& address() const { return address_; }

 private:
  const posix::Fd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address_;
  std::vector<Client> queued_;
};

TEST(TcpConnect, SilenceIsATimeOut) {
  const FullSocket full;
  ClientOptions options;
  options.provider.setup_timeout_client = std::chrono::milliseconds(100);
  const auto client = Client::connect("tcp://" + full.address(), options);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kTimedOut) << client.error().message();
  EXPECT_NE(client.error().cause.find("setup_timeout_client"), std::string::npos);
}

TEST(TcpConnect, TimeOfTheSetUpWakesALoopThatWaitsFirst) {
  const FullSocket full;
  ClientOptions options;
  options.provider.setup_timeout_client = std::chrono::milliseconds(20);
  for (const std::string scheme : {"tcp://", "rdma://"}) {
    auto client = Client::begin_connect(scheme + full.address(), options);
    ASSERT_TRUE(client) << client.error().message();
    pollfd waited{client->wait_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, 10'000), 1) << scheme;
  }
}

TEST(TcpConnect, SaysWhyThereIsNoConnection) {
  std::string address;
  {
    const RawListener gone([] {});
    address = gone.address();
  }
  const auto client = Client::connect("tcp://" + address);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kRefused) << client.error().message();
  const auto no_port = Client::connect("tcp://127.0.0.1");
  ASSERT_FALSE(no_port);
  EXPECT_EQ(no_port.error().code, Errc::kBadUrl);
}

}  // namespace
}  // namespace rpcrdma::test
