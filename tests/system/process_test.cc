// A server and clients as a program has them: the public API, real sockets, real processes.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/checked_reply.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

std::string url_of(const Server& server) {
  return "rdma://" + std::string(server.address());
}

Server listen(const ServerOptions& options = {}) {
  auto server = Server::listen("rdma://127.0.0.1:0", options);
  EXPECT_TRUE(server) << (server ? "" : server.error().message());
  return std::move(*server);
}

// Drives the server by a poll(2) loop of our own until the condition holds; false after the bound.
bool drive(Server& server, std::chrono::milliseconds bound,
           const std::function<bool()>& condition) {
  const auto limit = Clock::now() + bound;
  while (Clock::now() < limit) {
    server.progress();
    if (condition()) return true;
    pollfd fd{server.wait_fd(), POLLIN, 0};
    ::poll(&fd, 1, 50);
  }
  return false;
}

// A server on a thread of its own, stopped at the end.
class RunningServer {
 public:
  explicit RunningServer(const ServerOptions& options = quick_drain()) : server_(listen(options)) {
    EXPECT_TRUE(server_.add(TestService::kProgram, TestService::kVersion, service_));
    url_ = url_of(server_);
    thread_ = std::thread([this] { server_.run(); });
  }
  ~RunningServer() {
    server_.stop();
    thread_.join();
  }
  const std::string& url() const { return url_; }
  // Tests leave calls unanswered; the server is not to wait for them.
  static ServerOptions quick_drain() {
    ServerOptions options;
    options.drain_timeout = std::chrono::milliseconds(200);
    return options;
  }

 private:
  TestService service_;
  Server server_;
  std::string url_;
  std::thread thread_;
};

int connect_raw(const Server& server) {
  const std::string_view address = server.address();
  const std::string_view port_text = address.substr(address.rfind(':') + 1);
  std::uint16_t port = 0;
  std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

bool closed_by_peer(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

// --- Loops -------------------------------------------------------------------------------------

TEST(Process, ForeignPollLoopDrivesAClient) {
  RunningServer server;
  auto client = Client::connect(server.url(), {});
  ASSERT_TRUE(client) << client.error().message();
  const auto data = pattern(300000, 1);
  int ended = 0;
  for (int i = 0; i < 20; ++i) {
    auto call =
        client->prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    ASSERT_TRUE(client->start(std::move(*call), [&](auto reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(read(*reply)->xdr().u32("size"), 300000U);
      ++ended;
    }));
  }
  // Nothing but poll and progress(): a wake-up that got lost would show as a poll that times out.
  while (ended < 20) {
    pollfd fd{client->wait_fd(), POLLIN, 0};
    ASSERT_GT(::poll(&fd, 1, 10000), 0) << "a wake-up was lost";
    client->progress();
  }
}

TEST(Process, ReplyThatIsGivenBackLetsTheNextCallGo) {
  RunningServer server;
  ClientOptions options;
  options.connection.credits = 1;  // one Receive, which a Reply that is kept holds back
  auto client = Client::connect(server.url(), options);
  ASSERT_TRUE(client) << client.error().message();
  std::optional<Reply> kept;
  bool ended = false;
  const auto poll_client = [&](int timeout) {
    pollfd fd{client->wait_fd(), POLLIN, 0};
    return ::poll(&fd, 1, timeout) > 0;
  };
  const auto start = [&](ReplyCallback callback) {
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
    ASSERT_TRUE(call);
    ASSERT_TRUE(client->start(std::move(*call), std::move(callback)));
  };
  start([&](auto reply) { kept.emplace(std::move(*reply)); });
  while (!kept) {
    ASSERT_TRUE(poll_client(10000));
    client->progress();
  }
  start([&](auto reply) { ended = reply.has_value(); });
  while (poll_client(100)) client->progress();  // until all is quiet
  kept.reset();
  while (!ended) {
    ASSERT_TRUE(poll_client(500)) << "a wake-up was lost";
    client->progress();
  }
}

// Seventeen pieces of memory in each of 128 calls: more than a connection of default size exposes.
TEST(Process, CallsOfManyChunksAllEnd) {
  RunningServer server;
  auto client = Client::connect(server.url(), {});
  ASSERT_TRUE(client) << client.error().message();
  auto opener = client->prepare({TestService::kProgram, TestService::kVersion, 0});
  ASSERT_TRUE(client->call(std::move(*opener)));  // brings credits
  const auto data = pattern(1024, 1);
  std::vector<std::byte> place(1024);
  int ended = 0;
  for (int i = 0; i < 128; ++i) {
    auto call =
        client->prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
    ASSERT_TRUE(call) << call.error().message();
    for (std::size_t k = 0; k < kBulkItemsMax; ++k) {
      call->arguments().bulk(data);
      call->place_result(place);
    }
    call->expect_results(8192);
    call->time_out_after(std::chrono::seconds(20));
    const auto started = client->start(std::move(*call), [&](auto reply) {
      EXPECT_EQ(reply.error().code, Errc::kBadArguments) << reply.error().message();
      ++ended;
    });
    ASSERT_TRUE(started) << started.error().message();
  }
  client->drain();
  EXPECT_EQ(ended, 128);
}

TEST(Process, ForeignPollLoopDrivesAServer) {
  TestService service;
  Server server = listen();
  ASSERT_TRUE(server.add(TestService::kProgram, TestService::kVersion, service));
  std::atomic<bool> done = false;
  std::thread client_thread([url = url_of(server), &done] {
    auto client = Client::connect(url, {});
    ASSERT_TRUE(client) << client.error().message();
    for (int i = 0; i < 50; ++i) {
      auto call =
          client->prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
      ASSERT_TRUE(call);
      auto reply = client->call(std::move(*call));
      EXPECT_TRUE(reply) << reply.error().message();
    }
    done = true;
  });
  EXPECT_TRUE(drive(server, std::chrono::seconds(20),
                    [&] { return done.load() && server.connections() == 0; }));
  client_thread.join();
}

// The server asks its connections in turn: what a later one gives back an earlier one has missed.
TEST(Process, MemoryThatALaterConnectionGivesBackWakesTheServer) {
  ServerOptions options;
  options.memory_max = 3U << 20U;
  int ended = 0;
  test::RpcPair pair(test::make_siwarp(true), {}, options);
  Client later = test::RpcPair::connect_another(pair);
  const auto start = [&](Client& client, std::uint32_t procedure, Bytes data) {
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, procedure});
    ASSERT_TRUE(call);
    if (!data.empty()) call->arguments().bulk(data);
    ASSERT_TRUE(client.start(std::move(*call), [&](auto reply) {
      EXPECT_TRUE(reply) << reply.error().message();
      ++ended;
    }));
  };
  start(*pair.client, TestService::kNull, {});  // a client that was answered is quiet
  start(later, TestService::kHold, {});
  pair.run_until([&] {
    later.progress();
    return ended == 1 && pair.service.held.size() == 1;
  });
  CallContext* const holder = std::exchange(pair.service.held, {})[0];
  ASSERT_FALSE(holder->result_memory(2U << 20U).empty());
  const auto data = pattern(1U << 20U, 1);
  start(*pair.client, TestService::kLength, data);
  pair.run_until([&] { return pair.server->counters().read_chunks == 1; });
  EXPECT_EQ(pair.service.calls, 1U) << "it waits for memory";
  holder->succeed();
  while (ended < 3) {
    pollfd fds[] = {{pair.server->wait_fd(), POLLIN, 0}, {later.wait_fd(), POLLIN, 0}};
    ASSERT_GT(::poll(fds, 2, 2000), 0) << "a wake-up was lost";
    if (fds[0].revents != 0) pair.server->progress();
    pair.client->progress();
    later.progress();
  }
}

TEST(Process, CallTimeOutWakesAForeignLoop) {
  RunningServer server;
  auto client = Client::connect(server.url(), {});
  ASSERT_TRUE(client);
  auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kHold});
  ASSERT_TRUE(call);
  call->time_out_after(std::chrono::milliseconds(100));
  std::optional<Error> error;
  const auto start = Clock::now();
  ASSERT_TRUE(client->start(std::move(*call), [&](auto reply) {
    if (!reply) error = reply.error();
  }));
  while (!error) {
    pollfd fd{client->wait_fd(), POLLIN, 0};
    ASSERT_GT(::poll(&fd, 1, 5000), 0) << "nothing woke the loop at the time-out";
    client->progress();
  }
  EXPECT_EQ(error->code, Errc::kTimedOut);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(100));
}

TEST(Process, BlockingCallsFromSeveralThreadsEachWithItsOwnClient) {
  RunningServer server;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&server, i] {
      auto client = Client::connect(server.url(), {});
      ASSERT_TRUE(client) << client.error().message();
      for (unsigned round = 0; round < 20; ++round) {
        const auto data = pattern(1 + 10007 * round, i);
        std::vector<std::byte> place(data.size());
        auto call =
            client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
        ASSERT_TRUE(call);
        call->arguments().bulk(data);
        call->place_result(place);
        auto reply = client->call(std::move(*call));
        ASSERT_TRUE(reply) << reply.error().message();
        EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(1U << 20U, "data"), data));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- Peers that stop or die --------------------------------------------------------------------

TEST(Process, SilentPeerIsDroppedAfterItsSetUpTime) {
  ServerOptions options;
  options.provider.setup_timeout_server = std::chrono::milliseconds(200);
  Server server = listen(options);
  const int silent = connect_raw(server);
  const int half = connect_raw(server);
  ASSERT_EQ(::send(half, "MPA ID Req", 10, MSG_NOSIGNAL), 10);
  const auto start = Clock::now();
  EXPECT_TRUE(drive(server, std::chrono::seconds(5),
                    [&] { return closed_by_peer(silent) && closed_by_peer(half); }));
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(190));
  EXPECT_EQ(server.connections(), 0U);
  ::close(silent);
  ::close(half);
}

[[noreturn]] void echo_for_ever(const std::string& url);

// docs/invariants.md, P21, with a real peer: a stopped process serves no Reads.
TEST(Process, ClientThatIsStoppedInMidTransferIsDropped) {
  TestService service;
  ServerOptions options;
  options.peer_timeout = std::chrono::seconds(1);
  Server server = listen(options);
  ASSERT_TRUE(server.add(TestService::kProgram, TestService::kVersion, service));
  const std::string url = url_of(server);
  pid_t child = -1;
  std::uint64_t calls_before = 0;  // of other children
  const auto start_child = [&] {
    calls_before = service.calls;
    child = ::fork();
    if (child == 0) echo_for_ever(url);
    return child > 0;
  };
  ASSERT_TRUE(start_child());
  // On a busy machine a child that runs may stand still for longer than peer_timeout, too, and ends
  // when it is dropped.
  EXPECT_TRUE(drive(server, std::chrono::seconds(60), [&] {
    if (::waitpid(child, nullptr, WNOHANG) == child) return !start_child();
    return service.calls > calls_before + 10;
  }));
  ASSERT_GT(child, 0);
  ::kill(child, SIGSTOP);
  EXPECT_TRUE(drive(server, std::chrono::seconds(20), [&] { return server.connections() == 0; }));
  EXPECT_EQ(server.memory_in_use(), 0U);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The child echoes for ever, until it is killed.
[[noreturn]] void echo_for_ever(const std::string& url) {
  auto client = Client::connect(url, {});
  if (!client) ::_exit(1);
  // Together more than sockets hold: whenever it stops, the server waits for it.
  constexpr int kCalls = 24;
  const auto data = pattern(1U << 20U, 1);
  std::vector<std::byte> places[kCalls];
  std::function<void(int)> again = [&](int i) {
    auto& place = places[i];
    place.resize(data.size());
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    if (!call) ::_exit(1);
    call->arguments().bulk(data);
    call->place_result(place);
    auto started = client->start(std::move(*call), [&again, i](auto reply) {
      if (!reply) ::_exit(1);
      again(i);
    });
    if (!started) ::_exit(1);
  };
  for (int i = 0; i < kCalls; ++i) again(i);
  for (;;) {
    client->wait();
    client->progress();
  }
}

TEST(Process, ClientKilledInMidTransferLeavesNothingBehind) {
  TestService service;
  Server server = listen();
  ASSERT_TRUE(server.add(TestService::kProgram, TestService::kVersion, service));
  for (int round = 0; round < 5; ++round) {
    const std::string url = url_of(server);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) echo_for_ever(url);
    const std::uint64_t calls = service.calls;
    EXPECT_TRUE(
        drive(server, std::chrono::seconds(20), [&] { return service.calls > calls + 10; }));
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    EXPECT_TRUE(drive(server, std::chrono::seconds(2), [&] { return server.connections() == 0; }));
    EXPECT_EQ(server.memory_in_use(), 0U);
  }
  // It still serves.
  std::atomic<bool> served = false;
  std::thread thread([&, url = url_of(server)] {
    auto client = Client::connect(url, {});
    ASSERT_TRUE(client);
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
    served = client->call(std::move(*call)).has_value();
  });
  EXPECT_TRUE(drive(server, std::chrono::seconds(10), [&] { return served.load(); }));
  thread.join();
}

// The child serves until it is killed; its URL comes through a pipe.
pid_t fork_server(std::string& url) {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    TestService service;
    auto server = Server::listen("rdma://127.0.0.1:0", {});
    if (!server || !server->add(TestService::kProgram, TestService::kVersion, service)) ::_exit(1);
    const std::string text = url_of(*server);
    if (::write(fds[1], text.data(), text.size()) < 0) ::_exit(1);
    ::close(fds[1]);
    server->run();
    ::_exit(0);
  }
  ::close(fds[1]);
  char text[256];
  const ssize_t size = ::read(fds[0], text, sizeof(text));
  ::close(fds[0]);
  url.assign(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  return child;
}

TEST(Process, EveryCallEndsOnceWithinTwoSecondsWhenTheServerIsKilled) {
  std::string url;
  const pid_t child = fork_server(url);
  auto client = Client::connect(url, {});
  ASSERT_TRUE(client) << client.error().message();
  const auto data = pattern(1U << 20U, 1);
  std::vector<std::vector<std::byte>> places(64, std::vector<std::byte>(data.size()));
  std::vector<int> ends(64);
  int lost = 0, good = 0;
  std::string cause;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->place_result(places[i]);
    ASSERT_TRUE(client->start(std::move(*call), [&, i](auto reply) {
      ++ends[i];
      if (reply) {
        ++good;
      } else {
        EXPECT_EQ(reply.error().code, Errc::kConnectionLost);
        cause = reply.error().message();
        ++lost;
      }
    }));
  }
  while (good < 5) {
    client->wait();
    client->progress();
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto killed = Clock::now();
  client->drain();
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(2));
  EXPECT_EQ(std::ranges::count(ends, 1), 64) << "each call ends once";
  EXPECT_GT(lost, 0) << "all calls were through before the server died";
  EXPECT_NE(cause.find("connection"), std::string::npos) << cause;
  EXPECT_FALSE(client->prepare({TestService::kProgram, TestService::kVersion, 0}));
}

TEST(Process, StoppedServerLetsCallsTimeOut) {
  std::string url;
  const pid_t child = fork_server(url);
  ClientOptions options;
  options.call_timeout = std::chrono::milliseconds(300);
  auto client = Client::connect(url, options);
  ASSERT_TRUE(client) << client.error().message();
  ::kill(child, SIGSTOP);
  const auto data = pattern(1U << 20U, 1);
  auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kLength});
  call->arguments().bulk(data);
  const auto start = Clock::now();
  const auto reply = client->call(std::move(*call));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kTimedOut);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Process, ConnectingToNobodyIsRefusedWithAHint) {
  std::string url;
  {
    Server server = listen();
    url = url_of(server);
  }
  const auto client = Client::connect(url, {});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kRefused);
  EXPECT_NE(client.error().message().find("is a server running there"), std::string::npos)
      << client.error().message();
}

TEST(Process, BadUrlsSayWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"127.0.0.1", "rdma://"},
      {"rdma://", "host is missing"},
      {"rdma://h:99999", "65535"},
      {"rdma://::1", "brackets"},
      {"rdma://[::1", "]"},
      {"rdma://127.0.0.1:1x", "not a number"},
      {"rdma://127.0.0.1/x", "nothing may follow"},
  };
  for (const auto& [url, part] : cases) {
    const auto client = Client::connect(url, {});
    ASSERT_FALSE(client) << url;
    EXPECT_EQ(client.error().code, Errc::kBadUrl) << url;
    EXPECT_NE(client.error().cause.find(part), std::string::npos) << client.error().message();
  }
}

TEST(Process, TooManyConnectionsAreRefused) {
  ServerOptions options = RunningServer::quick_drain();
  options.connections_max = 2;
  RunningServer server(options);
  auto first = Client::connect(server.url(), {});
  auto second = Client::connect(server.url(), {});
  auto third = Client::connect(server.url(), {});
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Errc::kRefused);
}

}  // namespace
}  // namespace rpcrdma::test
