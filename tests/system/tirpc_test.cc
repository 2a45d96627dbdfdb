// libtirpc's client at a server of ours, and our client at libtirpc's server: what programs of
// today use over TCP.
#include <gtest/gtest.h>

#if RPCRDMA_HAVE_TIRPC
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/checked_reply.h"
#include "support/rpc_fixture.h"
#include "support/tirpc_data.h"

namespace rpcrdma::test {
namespace {

class TirpcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server.emplace(std::move(*Server::listen("tcp://127.0.0.1:0")));
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
    serving = std::thread([this] { server->run(); });
  }
  void TearDown() override {
    if (client != nullptr) clnt_destroy(client);
    server->stop();
    serving.join();
  }
  // `send_size`: how long libtirpc lets a fragment be, bytes; 0: as it likes.
  void connect(u_int version, u_int send_size) {
    const std::string address(server->address());
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    netbuf peer{sizeof(to), sizeof(to), &to};
    client = clnt_vc_create(fd, &peer, TestService::kProgram, version, send_size, 0);
    ASSERT_NE(client, nullptr);
    clnt_control(client, CLSET_FD_CLOSE, nullptr);
  }
  clnt_stat call(rpcproc_t procedure, xdrproc_t encode = coder(xdr_void), void* arguments = nullptr,
                 xdrproc_t decode = coder(xdr_void), void* results = nullptr) {
    const timeval limit{20, 0};
    return client->cl_ops->cl_call(client, procedure, encode, arguments, decode, results, limit);
  }
  void expect_echo(u_int size) {
    std::vector<std::byte> data = pattern(size, size);
    std::vector<std::byte> place(TestService::kBulkMax);
    Data arguments{size, reinterpret_cast<char*>(data.data())};
    Data results{0, reinterpret_cast<char*>(place.data())};
    ASSERT_EQ(call(TestService::kEcho, coder(xdr_data), &arguments, coder(xdr_data), &results),
              RPC_SUCCESS);
    place.resize(results.size);
    EXPECT_TRUE(place == data);
  }

  TestService service;
  std::optional<Server> server;
  std::thread serving;
  CLIENT* client = nullptr;
};

TEST_F(TirpcTest, CallsAreAnswered) {
  connect(TestService::kVersion, 0);
  EXPECT_EQ(call(0), RPC_SUCCESS);
  for (const u_int size : {0U, 1U, 4'000U, 300'000U}) expect_echo(size);
}

TEST_F(TirpcTest, CallsOfManyFragmentsAreAnswered) {
  connect(TestService::kVersion, 200);
  expect_echo(100'001);
}

TEST_F(TirpcTest, CredentialIsSeen) {
  connect(TestService::kVersion, 0);
  char machine[] = "here";
  auth_destroy(client->cl_auth);
  client->cl_auth = authunix_create(machine, 4711, 100, 0, nullptr);
  u_int uid = 0;
  EXPECT_EQ(call(TestService::kWhoAmI, coder(xdr_void), nullptr, coder(xdr_u_int), &uid),
            RPC_SUCCESS);
  EXPECT_EQ(uid, 4711U);
  auth_destroy(client->cl_auth);
  client->cl_auth = authnone_create();
}

TEST_F(TirpcTest, RefusalsAreUnderstood) {
  connect(TestService::kVersion + 1, 0);
  EXPECT_EQ(call(0), RPC_PROGVERSMISMATCH);
  rpc_err error{};
  clnt_geterr(client, &error);
  EXPECT_EQ(error.re_vers.low, TestService::kVersion);
  clnt_destroy(client);
  connect(TestService::kVersion, 0);
  EXPECT_EQ(call(99), RPC_PROCUNAVAIL);
  EXPECT_EQ(call(TestService::kGarbage), RPC_CANTDECODEARGS);
}

// --- The other way round

void serve_echo(svc_req* request, SVCXPRT* transport) {
  if (request->rq_proc == 0) {
    svc_sendreply(transport, coder(xdr_void), nullptr);
    return;
  }
  if (request->rq_proc != TestService::kEcho) return svcerr_noproc(transport);
  Data data{0, nullptr};
  if (!svc_getargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data))) {
    return svcerr_decode(transport);
  }
  svc_sendreply(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
  svc_freeargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
}

class TirpcServer : public ::testing::TestWithParam<u_int> {
 protected:
  // All of libtirpc's server stays on one thread.
  void SetUp() override {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    ASSERT_EQ(::listen(fd, 8), 0);
    socklen_t size = sizeof(at);
    ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size), 0);
    url = "tcp://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    ASSERT_EQ(::pipe(stop), 0);
    serving = std::thread([this, fd] { run(fd); });
  }
  void TearDown() override {
    ::close(stop[1]);
    serving.join();
    ::close(stop[0]);
  }
  void run(int fd) {
    SVCXPRT* const listener = svc_vc_create(fd, GetParam(), 0);
    svc_reg(listener, TestService::kProgram, TestService::kVersion, serve_echo, nullptr);
    for (;;) {
      std::vector<pollfd> fds(svc_pollfd, svc_pollfd + svc_max_pollfd);
      fds.push_back({stop[0], POLLIN, 0});
      const int ready = ::poll(fds.data(), fds.size(), -1);
      if (ready < 0 || fds.back().revents != 0) break;
      fds.pop_back();
      svc_getreq_poll(fds.data(), ready);
    }
    svc_unreg(TestService::kProgram, TestService::kVersion);
    svc_destroy(listener);
  }

  std::string url;
  int stop[2] = {-1, -1};
  std::thread serving;
};

TEST_P(TirpcServer, AnswersOurClient) {
  auto client = Client::connect(url);
  ASSERT_TRUE(client) << client.error().message();
  for (const std::size_t size : {1U, 4'000U, 300'000U}) {
    const std::vector<std::byte> data = pattern(size, 7);
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    auto reply = client->call(std::move(*call));
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes back = read(*reply)->bulk(TestService::kBulkMax, "data");
    EXPECT_TRUE(std::ranges::equal(back, data)) << size;
    EXPECT_FALSE(reply->finish());
  }
}

TEST_P(TirpcServer, RefusesAsOurErrorsSay) {
  auto client = Client::connect(url);
  ASSERT_TRUE(client) << client.error().message();
  const auto code_of = [&](const Procedure& procedure) {
    auto call = client->prepare(procedure);
    auto reply = client->call(std::move(*call));
    return reply ? std::nullopt : std::optional(reply.error().code);
  };
  EXPECT_EQ(code_of({TestService::kProgram, TestService::kVersion, 0}), std::nullopt);
  EXPECT_EQ(code_of({TestService::kProgram, TestService::kVersion, 77}), Errc::kNotAvailable);
  EXPECT_EQ(code_of({TestService::kProgram, TestService::kVersion + 1, 0}), Errc::kNotAvailable);
  EXPECT_EQ(code_of({TestService::kProgram + 1, 1, 0}), Errc::kNotAvailable);
}

// How long its fragments may be, bytes; 0: as it likes.
INSTANTIATE_TEST_SUITE_P(Fragments, TirpcServer, ::testing::Values(0U, 200U));

}  // namespace
}  // namespace rpcrdma::test
#else
TEST(TirpcTest, CallsAreAnswered) {
  GTEST_SKIP() << "libtirpc is not installed (Debian: libtirpc-dev)";
}
#endif
