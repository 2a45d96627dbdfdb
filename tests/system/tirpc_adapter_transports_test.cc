// The adapter's transports: whose connection each is, and how a loop inside of a dispatch function
// sleeps. The reports of the adapter, and their number.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma-tirpc.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/take_over.h"
#include "support/rpc_fixture.h"
#include "support/tirpc_data.h"

namespace rpcrdma::test {
namespace {

constexpr rpcprog_t kTransportsProgram = 0x20010178;
enum : rpcproc_t { kHandle = 1, kNested = 2 };
constexpr int kSpinsMax = 1'000;  // turns of a loop that never sleeps, soon

std::atomic<bool> is_nested = false, may_leave = false;
std::atomic<int> nested_turns = 0;

// Runs a loop as programs do that wait for something else inside of a procedure, until nothing has
// been readable for a while.
void run_nested_loop() {
  constexpr int kQuiet_ms = 50;
  is_nested = true;
  is_nested.notify_one();
  for (int turns = 1; turns < kSpinsMax; ++turns) {
    nested_turns = turns;
    std::vector<pollfd> fds(svc_pollfd, svc_pollfd + svc_max_pollfd);
    const int ready = ::poll(fds.data(), fds.size(), kQuiet_ms);
    if (ready == 0 && may_leave) return;
    if (ready > 0) svc_getreq_poll(fds.data(), ready);
  }
}

void dispatch_transports(svc_req* request, SVCXPRT* transport) {
  if (request->rq_proc == kNested) run_nested_loop();
  auto handle = reinterpret_cast<std::uintptr_t>(transport);
  u_int word = static_cast<u_int>(handle ^ handle >> 32U);
  svc_sendreply(transport, coder(xdr_u_int), &word);
}

// Serves on one thread at these addresses, each of them "ADDR"; all have one port.
class TransportsProgram {
 public:
  explicit TransportsProgram(std::vector<std::string> hosts) {
    EXPECT_EQ(::pipe(stop_.data()), 0);
    std::atomic<bool> is_ready = false;
    serving_ = std::thread([&] {
      SVCXPRT* rendezvous = nullptr;
      for (const std::string& each : hosts) {
        rendezvous = svc_rdma_create(("rdma://" + each + ":" + std::to_string(port)).c_str());
        if (rendezvous == nullptr) break;
        port = rendezvous->xp_port;
      }
      const bool is_served = rendezvous != nullptr && svc_reg(rendezvous, kTransportsProgram, 1,
                                                              dispatch_transports, nullptr) == TRUE;
      EXPECT_TRUE(is_served);
      is_ready = true;
      is_ready.notify_one();
      if (!is_served) return;
      serve();
      svc_unreg(kTransportsProgram, 1);
      svc_destroy(rendezvous);
    });
    is_ready.wait(false);
  }
  ~TransportsProgram() {
    ::close(stop_[1]);
    serving_.join();
    ::close(stop_[0]);
  }
  TransportsProgram(const TransportsProgram&) = delete;
  TransportsProgram& operator=(const TransportsProgram&) = delete;

  Client connect() const {
    auto client = Client::connect("rdma://127.0.0.1:" + std::to_string(port));
    EXPECT_TRUE(client) << client.error().message();
    return std::move(*client);
  }

  u_short port = 0;

 private:
  void serve() const { test::serve_until(stop_[0]); }

  std::array<int, 2> stop_{-1, -1};
  std::thread serving_;
};

std::optional<std::uint32_t> ask(Client& client, std::uint32_t procedure) {
  auto call = client.prepare({kTransportsProgram, 1, procedure});
  if (!call) return std::nullopt;
  auto reply = client.call(std::move(*call));
  if (!reply) return std::nullopt;
  const std::uint32_t answer = reply->results().xdr().u32("answer");
  reply->ignore_rest();
  return answer;
}

sockaddr_in address_of(const char* host, u_short port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, host, &address.sin_addr), 1);
  return address;
}

// A TCP connection from this port of 127.0.0.1, or from a free one, which is written there.
int connect_from(u_short& own_port, const char* host, u_short port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  sockaddr_in own = address_of("127.0.0.1", own_port), other = address_of(host, port);
  socklen_t size = sizeof(own);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&own), size), 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&other), sizeof(other)), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size), 0);
  own_port = ntohs(own.sin_port);
  return fd;
}

TEST(TirpcAdapterTransports, PeersWithOneAddressHaveOneTransportEach) {
  const TransportsProgram program({"127.0.0.1", "127.0.0.2"});
  u_short own_port = 0;
  auto first = TakeOver::adopt(connect_from(own_port, "127.0.0.1", program.port));
  ASSERT_TRUE(first) << first.error().message();
  auto second = TakeOver::adopt(connect_from(own_port, "127.0.0.2", program.port));
  ASSERT_TRUE(second) << second.error().message();
  const auto of_first = ask(*first, kHandle), of_second = ask(*second, kHandle);
  ASSERT_TRUE(of_first && of_second);
  EXPECT_NE(*of_first, *of_second);
  // Each goes with its own connection.
  { const Client gone = std::move(*first); }
  EXPECT_EQ(ask(*second, kHandle), of_second);
}

// Calls wait meanwhile, and are answered behind it.
TEST(TirpcAdapterTransports, LoopInsideOfADispatchFunctionSleeps) {
  is_nested = may_leave = false;
  const TransportsProgram program({"127.0.0.1"});
  Client nests = program.connect(), waits = program.connect();
  ASSERT_TRUE(ask(nests, kHandle));  // which grants more than one credit
  ASSERT_TRUE(ask(waits, kHandle));
  int answers = 0;
  const auto start = [&](Client& client, std::uint32_t procedure) {
    auto call = client.prepare({kTransportsProgram, 1, procedure});
    ASSERT_TRUE(call);
    ASSERT_TRUE(client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      reply->ignore_rest();
      ++answers;
    }));
    client.progress();
  };
  start(nests, kNested);
  is_nested.wait(false);
  start(waits, kHandle);
  start(nests, kHandle);
  may_leave = true;
  nests.drain();
  waits.drain();
  EXPECT_EQ(answers, 3);
  EXPECT_LT(nested_turns, kSpinsMax / 2);
}

// --- Reports

class Stderr {
 public:
  Stderr() { ::testing::internal::CaptureStderr(); }
  ~Stderr() {
    if (!is_read_) (void)::testing::internal::GetCapturedStderr();
  }
  std::string text() {
    is_read_ = true;
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  bool is_read_ = false;
};

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class TirpcAdapterReports : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }
  void start(const ServerOptions& options) {
    server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", options)));
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
    ASSERT_TRUE(server->add(kTabledProgram, TestService::kVersion, service));
    serving = std::thread([this] { server->run(); });
    url = "rdma://" + std::string(server->address());
  }
  void TearDown() override {
    server->stop();
    serving.join();
    server.reset();
  }
  // Makes one call without a reply, or of more bytes than there is room for.
  clnt_stat call(rpcprog_t program, const timeval& limit, u_int size) const {
    CLIENT* const client = clnt_rdma_create(url.c_str(), program, TestService::kVersion, nullptr);
    EXPECT_NE(client, nullptr);
    if (client == nullptr) return RPC_FAILED;
    Data results{0, nullptr};
    const clnt_stat status =
        clnt_call(client, TestService::kProduce, coder(xdr_u_int), reinterpret_cast<caddr_t>(&size),
                  coder(xdr_data), reinterpret_cast<caddr_t>(&results), limit);
    std::free(results.bytes);
    auth_destroy(client->cl_auth);
    clnt_destroy(client);
    return status;
  }

  static constexpr rpcprog_t kTabledProgram = TestService::kProgram + 8;
  static constexpr timeval kNow{0, 0}, kLong{60, 0};
  TestService service;
  std::optional<Server> server;
  std::thread serving;
  std::string url;
};

TEST_F(TirpcAdapterReports, EachKindIsReportedAndNoneFillsALog) {
  constexpr u_int kTooMuch = 800'000;  // than tirpc_adapter_test.cc has set
  Stderr printed;
  constexpr int kCalls = 40;
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_EQ(call(TestService::kProgram, kNow, 1), RPC_CANTSEND);
  }
  EXPECT_EQ(call(TestService::kProgram, kLong, kTooMuch), RPC_CANTDECODERES);
  const std::string text = printed.text();
  const std::size_t one_way = count(text, "which expects no reply, was not sent");
  EXPECT_GE(one_way, 1U) << text;
  EXPECT_LE(one_way, kCalls / 2U) << text;
  EXPECT_EQ(count(text, "Set RPCRDMA_TIRPC_REPLY_MAX to more"), 1U) << text;
}

// More room for results would change nothing there.
TEST_F(TirpcAdapterReports, ArgumentsThatAServerRefusesAreReportedAsThat) {
  TearDown();
  ServerOptions options;
  options.bulk_size_max = options.long_call_size_max = 64U << 10U;
  start(options);
  CLIENT* const client =
      clnt_rdma_create(url.c_str(), TestService::kProgram, TestService::kVersion, nullptr);
  ASSERT_NE(client, nullptr);
  std::vector<char> bytes(300'000, 'x');
  Data arguments{300'000, bytes.data()};
  Stderr printed;
  EXPECT_EQ(clnt_call(client, TestService::kLength, coder(xdr_data),
                      reinterpret_cast<caddr_t>(&arguments), coder(xdr_void), nullptr, kLong),
            RPC_CANTDECODERES);
  const std::string text = printed.text();
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  EXPECT_EQ(count(text, "it takes no such arguments"), 1U) << text;
  EXPECT_EQ(count(text, "RPCRDMA_TIRPC_REPLY_MAX"), 0U) << text;
}

// A setting would change nothing there.
TEST_F(TirpcAdapterReports, BoundOfATableIsReportedAsThatOfATable) {
  static constexpr rpcrdma_tirpc_procedure kProcedure = {TestService::kProduce, 0, 0, 0, 20'000};
  static constexpr rpcrdma_tirpc_table kTable = {kTabledProgram, TestService::kVersion, &kProcedure,
                                                 1};
  rpcrdma_tirpc_add(&kTable);
  Stderr printed;
  EXPECT_EQ(call(kTabledProgram, kLong, 1'000), RPC_SUCCESS);
  EXPECT_EQ(call(kTabledProgram, kLong, 50'000), RPC_CANTDECODERES);
  const std::string text = printed.text();
  EXPECT_EQ(count(text, "that of the program's table"), 1U) << text;
  EXPECT_EQ(count(text, "RPCRDMA_TIRPC_REPLY_MAX"), 0U) << text;
}

}  // namespace
}  // namespace rpcrdma::test
