// The adapter's server keeps descriptors for its program, whatever its peers take.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rpc/rpc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma-tirpc.h"
#include "rpcrdma/client.h"

namespace rpcrdma::test {
namespace {

constexpr rpcprog_t kLimitedProgram = 0x20010177;
enum : rpcproc_t { kOpens = 1, kEnds = 2 };

// Answers whether the program itself can still open a file.
void dispatch_limited(svc_req* request, SVCXPRT* transport) {
  const int file = request->rq_proc == kOpens ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
  u_int can_open = file >= 0 ? 1 : 0;
  if (file >= 0) ::close(file);
  const auto encode = reinterpret_cast<xdrproc_t>(reinterpret_cast<void (*)()>(xdr_u_int));
  svc_sendreply(transport, encode, &can_open);
  if (request->rq_proc == kEnds) svc_exit();
}

[[noreturn]] void serve_limited(int channel) {
  constexpr rlimit kLimit{200, 200};
  ::alarm(300);  // whatever becomes of the test
  if (::setrlimit(RLIMIT_NOFILE, &kLimit) != 0) ::_exit(1);
  SVCXPRT* const rendezvous = svc_rdma_create("rdma://127.0.0.1:0");
  if (rendezvous == nullptr) ::_exit(1);
  if (!svc_reg(rendezvous, kLimitedProgram, 1, dispatch_limited, nullptr)) ::_exit(1);
  if (::write(channel, &rendezvous->xp_port, sizeof(rendezvous->xp_port)) < 0) ::_exit(1);
  svc_run();
  ::_exit(0);
}

std::optional<std::uint32_t> ask(Client& client, std::uint32_t procedure) {
  auto call = client.prepare({kLimitedProgram, 1, procedure});
  if (!call) return std::nullopt;
  auto reply = client.call(std::move(*call));
  if (!reply) return std::nullopt;
  const std::uint32_t answer = reply->results().xdr().u32("answer");
  reply->ignore_rest();
  return answer;
}

TEST(TirpcAdapterLimits, ConnectionsLeaveTheProgramDescriptorsOfItsOwn) {
  std::array<int, 2> channel{};
  ASSERT_EQ(::pipe(channel.data()), 0);
  const pid_t process = ::fork();
  if (process == 0) serve_limited(channel[1]);
  ::close(channel[1]);
  u_short port = 0;
  ASSERT_EQ(::read(channel[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  ::close(channel[0]);
  const std::string url = "rdma://127.0.0.1:" + std::to_string(port);
  auto first = Client::connect(url);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(ask(*first, kOpens), 1U);
  std::vector<Client> others;
  for (int i = 0; i < 100; ++i) {
    auto another = Client::connect(url);
    if (!another) break;  // it has as many as it takes
    EXPECT_NE(ask(*another, kOpens), 0U) << i;
    others.push_back(std::move(*another));
  }
  EXPECT_GE(others.size(), 20U);
  EXPECT_EQ(ask(*first, kOpens), 1U);
  EXPECT_TRUE(ask(*first, kEnds));
  int status = -1;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rpcrdma::test
