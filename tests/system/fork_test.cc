// Programs that fork while they have a client.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

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
    const std::string url = scheme + "://" + std::string(server_->address());
    serving_ = std::thread([this] { server_->run(); });
    auto client = Client::connect(url);
    ASSERT_TRUE(client) << client.error().message();
    client_.emplace(std::move(*client));
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

INSTANTIATE_TEST_SUITE_P(Transports, ClientFork, ::testing::Values("rdma", "tcp"));

}  // namespace
}  // namespace rpcrdma::test
