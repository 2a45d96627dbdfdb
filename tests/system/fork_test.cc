// Programs that fork while they have a client or a server.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"

namespace rpcrdma::test {
namespace {

constexpr Procedure kProcedure{0x20000001, 1, 1};

class ClientFork : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string scheme = GetParam();
    auto server = Server::listen(scheme + "://127.0.0.1:0");
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    service_.on(1, [](CallContext& /*context*/) { return AcceptStatus::kSuccess; });
    ASSERT_TRUE(server_->add(kProcedure.program, kProcedure.version, service_));
    url_ = scheme + "://" + std::string(server_->address());
    serving_ = std::thread([this] { server_->run(); });
    connect();
  }
  void connect(const ClientOptions& options = {}) {
    client_.reset();
    auto client = Client::connect(url_, options);
    ASSERT_TRUE(client) << client.error().message();
    client_.emplace(std::move(*client));
  }
  void end_server() {
    server_->stop();
    serving_.join();
    server_.reset();
  }
  void TearDown() override {
    client_.reset();
    if (server_) server_->stop();
    if (serving_.joinable()) serving_.join();
  }
  void expect_answer() {
    auto call = client_->prepare(kProcedure);
    ASSERT_TRUE(call) << call.error().message();
    call->time_out_after(std::chrono::seconds(20));
    const auto reply = client_->call(std::move(*call));
    EXPECT_TRUE(reply) << reply.error().message();
  }

  FunctionService service_;
  bool has_ended_ = false;  // a call
  std::string url_;
  std::optional<Server> server_;
  std::thread serving_;
  std::optional<Client> client_;
};

// As a child does that ends by exit(), of a program whose client is static.
TEST_P(ClientFork, ChildThatDestroysItsCopyLeavesTheConnectionAlone) {
  expect_answer();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    client_.reset();
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_answer();
  EXPECT_TRUE(client_->connected());
}

// Returns how many wake-ups of this process's reactors lie unread, which a child would share.
std::uint64_t unread_wake_ups() {
  std::uint64_t sum = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(each.path());
    for (std::string word; file >> word;) {
      std::uint64_t count = 0;
      if (word == "eventfd-count:" && file >> std::hex >> count) sum += count;
    }
  }
  return sum;
}

// A timer that has come, or a wake-up, and that a child reads, never comes to its parent.
TEST_P(ClientFork, ChildThatDestroysItsCopyBetweenConnectionsLeavesTheTimersToItsParent) {
  ClientOptions options;
  options.reconnect.enabled = true;
  options.reconnect.first_delay = options.reconnect.delay_max = std::chrono::milliseconds(50);
  connect(options);
  expect_answer();
  end_server();
  while (client_->connected()) {
    client_->wait();
    client_->progress();
  }
  auto call = client_->prepare(kProcedure);
  ASSERT_TRUE(call) << call.error().message();
  ASSERT_TRUE(client_->start(std::move(*call),
                             [this](const Expected<Reply, Error>&) { has_ended_ = true; }));
  pollfd waited{client_->wait_fd(), POLLIN, 0};
  const auto is_ready = [&](int timeout) { return ::poll(&waited, 1, timeout) == 1; };
  while (is_ready(0)) client_->progress();  // until it waits for its next attempt
  ASSERT_TRUE(is_ready(10'000));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    client_.reset();
    ::_exit(has_ended_ ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(has_ended_);
  EXPECT_GT(unread_wake_ups(), 0U) << "the child has read that of its close()";
  client_->close();
}

// A daemon goes on with what it has made before.
TEST_P(ClientFork, ChildMayGoOnWithTheConnectionWhenItsParentLeavesItAlone) {
  expect_answer();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    bool is_answered = false;
    auto call = client_->prepare(kProcedure);
    if (!call) ::_exit(1);
    call->time_out_after(std::chrono::seconds(20));
    const auto end = [&](const Expected<Reply, Error>& reply) { is_answered = reply.has_value(); };
    if (!client_->start(std::move(*call), end)) ::_exit(2);
    for (int turns = 0; turns < 100 && !is_answered && client_->calls_in_flight() > 0; ++turns) {
      client_->wait();
      client_->progress();
    }
    ::_exit(is_answered ? 0 : 3);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Returns the status of a child that does this, as of waitpid().
int child_that(const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    act();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class UnixServerFork : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "rpcrdma.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    url_ = "unix://" + folder_ + "/socket";
    server_.emplace(Server::listen(url_).value());
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  bool has_file() const { return std::filesystem::exists(folder_ + "/socket"); }

  std::string folder_, url_;
  std::optional<Server> server_;
};

TEST_F(UnixServerFork, ChildThatDestroysItsCopyLeavesTheSocketToTheParent) {
  EXPECT_EQ(child_that([this] { server_.reset(); }), 0);
  auto client = Client::begin_connect(url_);
  ASSERT_TRUE(client) << client.error().message();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (server_->connections() == 0 && std::chrono::steady_clock::now() < end) {
    client->progress();
    server_->progress();
  }
  EXPECT_TRUE(client->connected());
  server_.reset();
  EXPECT_FALSE(has_file());
}

// A daemon that forks once it listens removes its file at its end.
TEST_F(UnixServerFork, ChildThatGoesOnWithTheServerRemovesItsSocket) {
  EXPECT_EQ(child_that([this] {
              server_->progress();
              server_.reset();
            }),
            0);
  EXPECT_FALSE(has_file());
}

// A child has none of the threads, and in the middle of which change they were nobody knows.
TEST(ShardsFork, ChildrenThatDestroyTheirCopyOfAServerThatIsBusyEnd) {
  ServerOptions options;
  options.shards = 3;
  auto listening = Server::listen("tcp://127.0.0.1:0", options);
  ASSERT_TRUE(listening) << listening.error().message();
  std::optional<Server> server(std::move(*listening));
  FunctionService service;
  service.on(1, [](CallContext& /*context*/) { return AcceptStatus::kSuccess; });
  ASSERT_TRUE(server->add(kProcedure.program, kProcedure.version, service));
  std::atomic<bool> is_over = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&, url = "tcp://" + std::string(server->address())] {
      while (!is_over) {
        auto client = Client::connect(url);
        auto call = client.value().prepare(kProcedure);
        if (client->call(std::move(*call))) ++calls;
      }
    });
  }
  const auto answer_until = [&](int count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (calls < count && std::chrono::steady_clock::now() < end) server->progress();
    EXPECT_GE(calls, count);
  };
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    answer_until(calls + 30);
    EXPECT_EQ(child_that([&server] { server.reset(); }), 0);
  }
  answer_until(calls + 30);
  is_over = true;
  std::thread joins([&] {
    for (std::thread& each : callers) each.join();
    is_over = false;
  });
  while (is_over) server->progress();  // the last calls are answered
  joins.join();
}

INSTANTIATE_TEST_SUITE_P(Transports, ClientFork, ::testing::Values("rdma", "tcp"));

}  // namespace
}  // namespace rpcrdma::test
