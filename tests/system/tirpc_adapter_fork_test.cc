// A daemon of libtirpc's that listens on an RDMA device and forks. A stand-in plays the device.
#include <gtest/gtest.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "rpcrdma-tirpc.h"
#include "rpcrdma/client.h"
#include "support/tirpc_data.h"

namespace rpcrdma::test {
namespace {

constexpr rpcprog_t kForkProgram = 0x20010179;
constexpr rpcproc_t kEnds = 1;

void dispatch_fork(svc_req* request, SVCXPRT* transport) {
  svc_sendreply(transport, coder(xdr_void), nullptr);
  if (request->rq_proc == kEnds) svc_exit();
}

// One turn of a loop. Returns how many descriptors were readable.
int take_turn(int timeout_ms) {
  std::vector<pollfd> fds(svc_pollfd, svc_pollfd + svc_max_pollfd);
  const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
  if (ready > 0) svc_getreq_poll(fds.data(), ready);
  return ready;
}

// Listens, forks, and serves until a call ends it. The child serves as well as it can.
[[noreturn]] void serve_and_fork(int channel, int log) {
  ::alarm(300);  // whatever becomes of the test
  ::dup2(log, STDERR_FILENO);
  SVCXPRT* const rendezvous = svc_rdma_create("rdma://127.0.0.1:0");
  if (rendezvous == nullptr) ::_exit(1);
  if (!svc_reg(rendezvous, kForkProgram, 1, dispatch_fork, nullptr)) ::_exit(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);
    if (take_turn(-1) != 1) ::_exit(2);
    ::_exit(take_turn(0) == 0 ? 0 : 3);  // it does not find the same for ever
  }
  int status = -1;
  if (::waitpid(child, &status, 0) != child || status != 0) ::_exit(4);
  if (::write(channel, &rendezvous->xp_port, sizeof(rendezvous->xp_port)) < 0) ::_exit(1);
  svc_run();
  ::_exit(0);
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(fd, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

TEST(TirpcAdapterFork, ChildThatCannotServeADeviceSaysWhatToDo) {
  ASSERT_EQ(::setenv("RPCRDMA_PROVIDER_DIR", RPCRDMA_STAND_IN_DIR, 1), 0);
  ASSERT_EQ(::setenv("RPCRDMA_TIRPC_PROVIDER", "verbs", 1), 0);
  std::array<int, 2> channel{}, log{};
  ASSERT_EQ(::pipe(channel.data()), 0);
  ASSERT_EQ(::pipe(log.data()), 0);
  const pid_t process = ::fork();
  if (process == 0) serve_and_fork(channel[1], log[1]);
  ::close(channel[1]);
  ::close(log[1]);
  u_short port = 0;
  const bool is_up = ::read(channel[0], &port, sizeof(port)) == static_cast<ssize_t>(sizeof(port));
  ::close(channel[0]);
  if (is_up) {
    // The parent still serves.
    ClientOptions options;
    options.provider.name = "siwarp";
    auto client = Client::connect("rdma://127.0.0.1:" + std::to_string(port), options);
    ASSERT_TRUE(client) << client.error().message();
    auto call = client->prepare({kForkProgram, 1, kEnds});
    ASSERT_TRUE(call);
    auto reply = client->call(std::move(*call));
    ASSERT_TRUE(reply) << reply.error().message();
    reply->ignore_rest();
  }
  const std::string said = read_all(log[0]);
  ::close(log[0]);
  int status = -1;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0) << said;
  EXPECT_NE(said.find("this process forks while it listens on an RDMA device"), std::string::npos)
      << said;
  EXPECT_NE(said.find("this process is a child of the one that listens on the RDMA device"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace rpcrdma::test
