// The adapter's server keeps descriptors for its program, whatever its peers take.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rpc/rpc.h>
#include <sys/resource.h>
#include <sys/select.h>
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

// Answers the descriptor that the program itself gets if it opens a file; 0: there is none.
void dispatch_limited(svc_req* request, SVCXPRT* transport) {
  const int file = request->rq_proc == kOpens ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
  u_int can_open = file >= 0 ? static_cast<u_int>(file) : 0;
  if (file >= 0) ::close(file);
  const auto encode = reinterpret_cast<xdrproc_t>(reinterpret_cast<void (*)()>(xdr_u_int));
  svc_sendreply(transport, encode, &can_open);
  if (request->rq_proc == kEnds) svc_exit();
}

[[noreturn]] void serve_limited(int channel, int log, rlim_t limit) {
  const rlimit of_process{limit, limit};
  ::alarm(300);  // whatever becomes of the test
  if (::setrlimit(RLIMIT_NOFILE, &of_process) != 0) ::_exit(1);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
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

// A program with this limit of descriptors, in a process of its own.
class LimitedProgram {
 public:
  explicit LimitedProgram(rlim_t limit) {
    std::array<int, 2> channel{}, log{};
    EXPECT_EQ(::pipe(channel.data()), 0);
    EXPECT_EQ(::pipe(log.data()), 0);
    process_ = ::fork();
    if (process_ == 0) serve_limited(channel[1], log[1], limit);
    ::close(channel[1]);
    ::close(log[1]);
    u_short port = 0;
    EXPECT_EQ(::read(channel[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
    ::close(channel[0]);
    log_ = log[0];
    url_ = "rdma://127.0.0.1:" + std::to_string(port);
  }
  LimitedProgram(const LimitedProgram&) = delete;
  LimitedProgram& operator=(const LimitedProgram&) = delete;
  ~LimitedProgram() { ::close(log_); }

  Expected<Client, Error> connect() const { return Client::connect(url_); }
  // Ends it, and returns what it has written to stderr.
  std::string end(Client& client) const {
    EXPECT_TRUE(ask(client, kEnds));
    int status = -1;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    EXPECT_EQ(status, 0);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(log_, part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  pid_t process_ = -1;
  int log_ = -1;
  std::string url_;
};

TEST(TirpcAdapterLimits, ConnectionsLeaveTheProgramDescriptorsOfItsOwn) {
  const LimitedProgram program(200);
  auto first = program.connect();
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_NE(ask(*first, kOpens), 0U);
  std::vector<Client> others;
  for (int i = 0; i < 100; ++i) {
    auto another = program.connect();
    if (!another) break;  // it has as many as it takes
    EXPECT_NE(ask(*another, kOpens), 0U) << i;
    others.push_back(std::move(*another));
  }
  EXPECT_GE(others.size(), 20U);
  EXPECT_LT(others.size(), 100U);
  EXPECT_NE(ask(*first, kOpens), 0U);
  const std::string said = program.end(*first);
  EXPECT_NE(said.find("RPCRDMA_TIRPC_CONNECTIONS_MAX and the limit of descriptors"),
            std::string::npos)
      << said;
}

// A loop over svc_fdset has 1,024 of them.
TEST(TirpcAdapterLimits, ConnectionsTakeFewDescriptorsThatSelectCanSee) {
  constexpr rlim_t kLimit = 4'000;
  constexpr std::uint32_t kConnections = 40;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kLimit) {
    GTEST_SKIP() << "a process may have " << limit.rlim_max << " descriptors, not " << kLimit;
  }
  const LimitedProgram program(kLimit);
  auto first = program.connect();
  ASSERT_TRUE(first) << first.error().message();
  const auto before = ask(*first, kOpens);
  std::vector<Client> others;
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    auto another = program.connect();
    ASSERT_TRUE(another) << another.error().message();
    EXPECT_TRUE(ask(*another, kOpens));
    others.push_back(std::move(*another));
  }
  const auto after = ask(*first, kOpens);
  ASSERT_TRUE(before && after);
  EXPECT_LE(*after - *before, kConnections) << "one each, that of its transport";
  EXPECT_EQ(program.end(*first), "");
}

// With half of them taken, it takes others; where the limit has none, it says so.
TEST(TirpcAdapterLimits, TransportsLeaveHalfOfTheDescriptorsThatSelectCanSee) {
  constexpr rlim_t kLimit = 4'000;
  constexpr std::uint32_t kConnections = 600, kHalf = FD_SETSIZE / 2;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kLimit) {
    GTEST_SKIP() << "a process may have " << limit.rlim_max << " descriptors, not " << kLimit;
  }
  limit.rlim_cur = kLimit;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const LimitedProgram program(kLimit);
  auto first = program.connect();
  ASSERT_TRUE(first) << first.error().message();
  std::vector<Client> others;
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    auto another = program.connect();
    ASSERT_TRUE(another) << another.error().message();
    EXPECT_TRUE(ask(*another, kOpens));
    others.push_back(std::move(*another));
  }
  EXPECT_EQ(ask(*first, kOpens), kHalf);
  EXPECT_EQ(program.end(*first), "");
}

}  // namespace
}  // namespace rpcrdma::test
