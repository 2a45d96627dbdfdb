// The adapter for programs of libtirpc, linked: its server with clients of ours and with its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma-tirpc.h"
#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "support/checked_reply.h"
#include "support/rpc_fixture.h"
#include "support/tirpc_data.h"
#include "system/tirpc_adapter_for_test.h"

namespace rpcrdma::test {
namespace {

enum : rpcproc_t { kHoldsBack = 5, kPeer = 20, kLeave = 21 };

// A program's routine may make its data on the way, and free it: libtirpc's xdr_bytes() copies.
bool_t xdr_made(XDR* stream, u_int* size) {
  std::vector<std::byte> data = pattern(*size, *size);
  auto* bytes = reinterpret_cast<char*>(data.data());
  const bool_t is_done = xdr_bytes(stream, &bytes, size, kDataMax);
  std::ranges::fill(data, std::byte{0xee});
  return is_done;
}

// Writes the length of what follows when it is known.
bool_t xdr_measured(XDR* stream, u_int* size) {
  const u_int start = xdr_getpos(stream);
  u_int length = 0, word = 4711;
  if (!xdr_u_int(stream, &length) || !xdr_made(stream, size) || !xdr_u_int(stream, &word)) {
    return FALSE;
  }
  const u_int end = xdr_getpos(stream);
  length = static_cast<u_int>(end - start - xdr::kWordSize);
  return xdr_setpos(stream, start) && xdr_getpos(stream) == start && xdr_u_int(stream, &length) &&
         xdr_setpos(stream, end);
}

struct Measured {
  u_int length, word;
  Data data;
};
bool_t xdr_read_measured(XDR* stream, Measured* measured) {
  return xdr_u_int(stream, &measured->length) && xdr_data(stream, &measured->data) &&
         xdr_u_int(stream, &measured->word);
}

std::atomic<int> transports = 0;  // that libtirpc knows
std::atomic<int> unanswered = 0;
std::atomic<bool> garbage_took_memory = false;

void serve_echo(svc_req* request, SVCXPRT* transport) {
  transports = static_cast<int>(std::count_if(svc_pollfd, svc_pollfd + svc_max_pollfd,
                                              [](const pollfd& each) { return each.fd >= 0; }));
  Data data{0, nullptr};
  switch (request->rq_proc) {
    case 0:
      svc_sendreply(transport, coder(xdr_void), nullptr);
      return;
    case TestService::kEcho:
      if (!svc_getargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data))) {
        if (data.bytes != nullptr) garbage_took_memory = true;
        svc_freeargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
        return svcerr_decode(transport);
      }
      svc_sendreply(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
      svc_freeargs(transport, coder(xdr_data), reinterpret_cast<caddr_t>(&data));
      return;
    case TestService::kWhoAmI: {
      u_int uid = 0xffffffff;
      if (request->rq_cred.oa_flavor == AUTH_SYS) {
        uid = static_cast<authunix_parms*>(request->rq_clntcred)->aup_uid;
      }
      svc_sendreply(transport, coder(xdr_u_int), &uid);
      return;
    }
    case kPeer: {
      const auto* const address = static_cast<const sockaddr_in*>(svc_getrpccaller(transport)->buf);
      u_int port = ntohs(address->sin_port);
      svc_sendreply(transport, coder(xdr_u_int), &port);
      return;
    }
    case kMany: {
      Many many{};
      if (!svc_getargs(transport, coder(xdr_many), reinterpret_cast<caddr_t>(&many))) {
        svcerr_decode(transport);
      } else {
        svc_sendreply(transport, coder(xdr_many), reinterpret_cast<caddr_t>(&many));
      }
      svc_freeargs(transport, coder(xdr_many), reinterpret_cast<caddr_t>(&many));
      return;
    }
    case kMade:
    case kMeasured: {
      u_int size = 0;
      if (!svc_getargs(transport, coder(xdr_u_int), reinterpret_cast<caddr_t>(&size))) {
        return svcerr_decode(transport);
      }
      svc_sendreply(transport, request->rq_proc == kMade ? coder(xdr_made) : coder(xdr_measured),
                    reinterpret_cast<caddr_t>(&size));
      return;
    }
    case kHoldsBack:
      ++unanswered;
      return;  // no answer, as procedures of rpcgen's that return null
    case kLeave:
      svc_sendreply(transport, coder(xdr_void), nullptr);
      svc_destroy(transport);
      return;
    default:
      svcerr_noproc(transport);
  }
}

enum class Loop : std::uint8_t { kPoll, kSelect };

class TirpcAdapterServer : public ::testing::TestWithParam<Loop> {
 protected:
  // All of libtirpc's server stays on one thread.
  void SetUp() override {
    ASSERT_EQ(::pipe(stop_), 0);
    unanswered = 0;
    std::atomic<bool> is_ready = false;
    serving_ = std::thread([&] {
      SVCXPRT* const rendezvous = svc_rdma_create("rdma://127.0.0.1:0");
      if (rendezvous != nullptr) {
        url_ = "rdma://127.0.0.1:" + std::to_string(rendezvous->xp_port);
        for (const rpcprog_t program : {rpcprog_t{TestService::kProgram}, kBoundProgram}) {
          EXPECT_TRUE(svc_reg(rendezvous, program, TestService::kVersion, serve_echo, nullptr));
        }
      }
      is_ready = true;
      is_ready.notify_one();
      if (rendezvous == nullptr) return;
      GetParam() == Loop::kPoll ? poll_until_stopped() : select_until_stopped();
      for (const rpcprog_t program : {rpcprog_t{TestService::kProgram}, kBoundProgram}) {
        svc_unreg(program, TestService::kVersion);
      }
      svc_destroy(rendezvous);
    });
    is_ready.wait(false);
    ASSERT_FALSE(url_.empty());
  }
  void TearDown() override {
    ::close(stop_[1]);
    serving_.join();
    ::close(stop_[0]);
  }
  void poll_until_stopped() const { test::serve_until(stop_[0]); }
  void select_until_stopped() const {
    for (;;) {
      fd_set fds = svc_fdset;
      FD_SET(stop_[0], &fds);
      const int ready =
          ::select(std::max(svc_maxfd, stop_[0]) + 1, &fds, nullptr, nullptr, nullptr);
      if (ready < 0 || FD_ISSET(stop_[0], &fds)) return;
      svc_getreqset(&fds);
    }
  }
  Client connect_ours() const {
    auto client = Client::connect(url_);
    EXPECT_TRUE(client) << client.error().message();
    return std::move(*client);
  }
  static std::optional<Error> call_ours(Client& client, std::uint32_t procedure) {
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, procedure});
    EXPECT_TRUE(call);
    auto reply = client.call(std::move(*call));
    if (!reply) return reply.error();
    reply->ignore_rest();
    return std::nullopt;
  }

  std::string url_;
  int stop_[2] = {-1, -1};
  std::thread serving_;
};

INSTANTIATE_TEST_SUITE_P(WithEachLoop, TirpcAdapterServer,
                         ::testing::Values(Loop::kPoll, Loop::kSelect), [](const auto& each) {
                           return each.param == Loop::kPoll ? "poll" : "select";
                         });

TEST_P(TirpcAdapterServer, AnswersItsOwnClient) {
  const TirpcClient client = connect(url_);
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
  for (const u_int size : {0U, 1U, 2'000U, 3'000U, 300'000U}) expect_echo(client.get(), size);
  EXPECT_EQ(call(client.get(), 77), RPC_PROCUNAVAIL);
  const TirpcClient other = connect(url_, TestService::kVersion + 1);
  EXPECT_EQ(call(other.get(), 0), RPC_PROGVERSMISMATCH);
  EXPECT_EQ(error_of(other.get()).re_vers.high, TestService::kVersion);
}

TEST_P(TirpcAdapterServer, AnswersOurClient) {
  Client client = connect_ours();
  for (const std::size_t size : {1U, 4'000U, 300'001U}) {
    const std::vector<std::byte> data = pattern(size, 7);
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    ASSERT_TRUE(call);
    call->arguments().bulk(data);  // in a Read chunk
    call->expect_results(400'000);
    auto reply = client.call(std::move(*call));
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes back = read(*reply)->bulk(TestService::kBulkMax, "data");
    EXPECT_TRUE(std::ranges::equal(back, data)) << size;
    EXPECT_FALSE(reply->finish());
  }
}

TEST_P(TirpcAdapterServer, PlacesResultsOfTablesWhereOurClientWantsThem) {
  add_table();
  Client client = connect_ours();
  for (const std::size_t size : {1U, 4'095U, 5'000U, 300'001U}) {
    const std::vector<std::byte> data = pattern(size, 7);
    std::vector<std::byte> place(TestService::kBulkMax);
    auto call = client.prepare({kBoundProgram, TestService::kVersion, TestService::kEcho});
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->place_result(place);
    auto reply = client.call(std::move(*call));
    ASSERT_TRUE(reply) << reply.error().message();
    const Bytes back = reply->results().bulk(TestService::kBulkMax, "data");
    EXPECT_TRUE(std::ranges::equal(back, data)) << size;
    EXPECT_EQ(back.data(), place.data());
    EXPECT_FALSE(reply->finish());
  }
  EXPECT_EQ(client.counters().long_replies, 0U);
  const TirpcClient theirs(
      clnt_rdma_create(url_.c_str(), kBoundProgram, TestService::kVersion, nullptr));
  ASSERT_TRUE(theirs);
  for (const u_int size : {0U, 4'095U, 5'000U, 300'001U}) expect_echo(theirs.get(), size);
}

// More than one message can have of data in places of its own.
TEST_P(TirpcAdapterServer, PlacedDataBetweenOtherLongDataPasses) {
  add_table();
  const TirpcClient client(
      clnt_rdma_create(url_.c_str(), kBoundProgram, TestService::kVersion, nullptr));
  ASSERT_TRUE(client);
  // Where the first of them stays in the message, no other takes its place.
  for (const u_int first_size : {kManySize, 100U, 0U}) {
    std::array<std::vector<std::byte>, kManyItems> data;
    Many arguments{}, results{};
    for (std::size_t i = 0; i < kManyItems; ++i) {
      data[i] = pattern(i < 2 ? first_size : kManySize, static_cast<std::uint32_t>(i));
      arguments[i] = {static_cast<u_int>(data[i].size()), reinterpret_cast<char*>(data[i].data())};
      if (data[i].empty()) arguments[i].bytes = nullptr;
    }
    ASSERT_EQ(
        call(client.get(), kMany, kLong, coder(xdr_many), &arguments, coder(xdr_many), &results),
        RPC_SUCCESS)
        << clnt_sperror(client.get(), "many");
    for (std::size_t i = 0; i < kManyItems; ++i) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(results[i].bytes);
      EXPECT_TRUE(std::ranges::equal(Bytes(bytes, results[i].size), data[i])) << i;
    }
    EXPECT_TRUE(clnt_freeres(client.get(), coder(xdr_many), &results));
  }
}

TEST_P(TirpcAdapterServer, SendsDataAsItIsWhenItsRoutineHandsItOver) {
  add_table();
  for (const rpcprog_t program : {rpcprog_t{TestService::kProgram}, kBoundProgram}) {
    const TirpcClient client(
        clnt_rdma_create(url_.c_str(), program, TestService::kVersion, nullptr));
    ASSERT_TRUE(client);
    for (u_int size : {1U, 5'000U, 40'001U, 300'001U}) {
      const std::vector<std::byte> data = pattern(size, size);
      Data results{0, nullptr};
      ASSERT_EQ(
          call(client.get(), kMade, kLong, coder(xdr_u_int), &size, coder(xdr_data), &results),
          RPC_SUCCESS);
      EXPECT_TRUE(std::ranges::equal(
          Bytes(reinterpret_cast<const std::byte*>(results.bytes), results.size), data))
          << size;
      EXPECT_TRUE(clnt_freeres(client.get(), coder(xdr_data), &results));
    }
  }
}

TEST_P(TirpcAdapterServer, PositionsOfAReplyCountItsLongData) {
  add_table();
  for (const rpcprog_t program : {rpcprog_t{TestService::kProgram}, kBoundProgram}) {
    const TirpcClient client(
        clnt_rdma_create(url_.c_str(), program, TestService::kVersion, nullptr));
    ASSERT_TRUE(client);
    for (u_int size : {0U, 1U, 5'000U, 40'001U, 300'001U}) {
      const std::vector<std::byte> data = pattern(size, size);
      Measured results{};
      ASSERT_EQ(call(client.get(), kMeasured, kLong, coder(xdr_u_int), &size,
                     coder(xdr_read_measured), &results),
                RPC_SUCCESS)
          << size;
      EXPECT_EQ(results.length, xdr::padded(size) + 2 * xdr::kWordSize);
      EXPECT_EQ(results.word, 4711U);
      EXPECT_TRUE(std::ranges::equal(
          Bytes(reinterpret_cast<const std::byte*>(results.data.bytes), results.data.size), data))
          << size;
      EXPECT_TRUE(clnt_freeres(client.get(), coder(xdr_read_measured), &results));
    }
  }
}

TEST_P(TirpcAdapterServer, RefusesAsOurErrorsSay) {
  Client client = connect_ours();
  const auto code_of = [&](const Procedure& procedure) {
    auto call = client.prepare(procedure);
    auto reply = client.call(std::move(*call));
    return reply ? std::nullopt : std::optional(reply.error().code);
  };
  EXPECT_EQ(code_of({TestService::kProgram, TestService::kVersion, 0}), std::nullopt);
  EXPECT_EQ(code_of({TestService::kProgram, TestService::kVersion, 77}), Errc::kNotAvailable);
  EXPECT_EQ(code_of({TestService::kProgram, TestService::kVersion + 1, 0}), Errc::kNotAvailable);
  EXPECT_EQ(code_of({TestService::kProgram + 1, 1, 0}), Errc::kNotAvailable);
}

TEST_P(TirpcAdapterServer, SeesCredentialAndAddressOfTheCaller) {
  const TirpcClient client = connect(url_);
  char machine[] = "here";
  auth_destroy(client->cl_auth);
  client->cl_auth = authunix_create(machine, 4711, 100, 0, nullptr);
  u_int uid = 0, port = 0;
  ASSERT_EQ(call(client.get(), TestService::kWhoAmI, kLong, coder(xdr_void), nullptr,
                 coder(xdr_u_int), &uid),
            RPC_SUCCESS);
  EXPECT_EQ(uid, 4711U);
  ASSERT_EQ(call(client.get(), kPeer, kLong, coder(xdr_void), nullptr, coder(xdr_u_int), &port),
            RPC_SUCCESS);
  EXPECT_NE(port, 0U);
}

// Over TCP their client would wait for its time-out; here it would lose a credit for good.
TEST_P(TirpcAdapterServer, CallWithoutAnAnswerFailsWhenTheNextOneComes) {
  ClientOptions options;
  auto client = Client::connect(url_, options);
  ASSERT_TRUE(client) << client.error().message();
  EXPECT_EQ(call_ours(*client, 0), std::nullopt);
  auto first = client->prepare({TestService::kProgram, TestService::kVersion, kHoldsBack});
  ASSERT_TRUE(first);
  std::optional<Error> error;
  ASSERT_TRUE(client->start(std::move(*first), [&](Expected<Reply, Error> reply) {
    if (!reply) error = reply.error();
  }));
  EXPECT_EQ(call_ours(*client, 0), std::nullopt);
  client->drain();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kServerFault) << error->message();
}

TEST_P(TirpcAdapterServer, GarbageIsRefusedAndServedBeyond) {
  Client client = connect_ours();
  const auto send = [&client](std::initializer_list<std::uint32_t> message) {
    auto call = client.prepare_message();
    for (const std::uint32_t word : message) call->arguments().xdr().u32(word);
    auto reply = client.call(std::move(*call));
    EXPECT_TRUE(reply) << reply.error().message();
    if (!reply) return std::uint32_t{0};
    xdr::Reader& words = reply->results().xdr();
    reply->ignore_rest();
    for (int i = 0; i < 5; ++i) (void)words.u32("header");
    return words.u32("status");
  };
  constexpr auto kGarbage = static_cast<std::uint32_t>(AcceptStatus::kGarbageArgs);
  EXPECT_EQ(send({1, 0}), kGarbage);                                              // ends too early
  EXPECT_EQ(send({2, 0, 2, TestService::kProgram, 3, 1, 0, 400'000}), kGarbage);  // credential
  // The arguments have another length than they say.
  EXPECT_EQ(send({3, 0, 2, TestService::kProgram, 3, TestService::kEcho, 0, 0, 0, 0, 0xffffffff}),
            kGarbage);
  EXPECT_EQ(send({4, 0, 2, TestService::kProgram, 3, TestService::kEcho, 0, 0, 0, 0, 900'000, 1}),
            kGarbage);
  EXPECT_EQ(call_ours(client, 0), std::nullopt);
  EXPECT_FALSE(garbage_took_memory);
}

// Waits until a server of libtirpc has this number of transports.
void await_transports(CLIENT* client, int count) {
  do {
    ASSERT_EQ(call(client, 0), RPC_SUCCESS);
  } while (transports != count);
}

TEST_P(TirpcAdapterServer, TransportGoesWithItsConnection) {
  const TirpcClient watcher = connect(url_);
  await_transports(watcher.get(), 2);
  {
    const TirpcClient another = connect(url_);
    EXPECT_EQ(call(another.get(), 0), RPC_SUCCESS);
    EXPECT_EQ(transports, 3);
  }
  await_transports(watcher.get(), 2);
}

TEST_P(TirpcAdapterServer, CallAfterAProgramHasDestroyedATransportGetsAnother) {
  const TirpcClient client = connect(url_);
  EXPECT_EQ(call(client.get(), kLeave), RPC_SUCCESS);
  expect_echo(client.get(), 3'000);
  await_transports(client.get(), 2);
}

TEST_P(TirpcAdapterServer, EndsWithCallsThatNobodyHasAnswered) {
  Client client = connect_ours();
  EXPECT_EQ(call_ours(client, 0), std::nullopt);
  auto call = client.prepare({TestService::kProgram, TestService::kVersion, kHoldsBack});
  ASSERT_TRUE(call);
  std::optional<Error> error;
  ASSERT_TRUE(client.start(std::move(*call), [&](Expected<Reply, Error> reply) {
    if (!reply) error = reply.error();
  }));
  client.progress();
  const TirpcClient other = connect(url_);
  while (unanswered == 0) ASSERT_EQ(rpcrdma::test::call(other.get(), 0), RPC_SUCCESS);
  ::close(std::exchange(stop_[1], ::dup(stop_[0])));
  client.drain();
  EXPECT_TRUE(error);
}

TEST_P(TirpcAdapterServer, CallsThatWaitedWhenTheirPeerWentAreDropped) {
  const TirpcClient watcher = connect(url_);
  for (int i = 0; i < 20; ++i) {
    ClientOptions options;
    auto client = Client::connect(url_, options);
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(call_ours(*client, 0), std::nullopt);
    std::vector<std::byte> data = pattern(100'000, 3);
    for (int j = 0; j < 8; ++j) {
      auto call =
          client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
      ASSERT_TRUE(call);
      call->arguments().bulk(data);
      ASSERT_TRUE(client->start(std::move(*call), [](Expected<Reply, Error>) {}));
    }
    for (int j = 0; j < i; ++j) client->progress();
  }
  await_transports(watcher.get(), 2);
  expect_echo(watcher.get(), 100'000);
}

// --- Programs that run svc_run(), each in a process of its own

class Program {
 public:
  // `forks`: as daemons do, the process that has registered ends, and its child goes on.
  explicit Program(bool forks) {
    std::array<int, 2> channel{};
    EXPECT_EQ(::pipe(channel.data()), 0);
    const pid_t process = ::fork();
    if (process == 0) serve(channel[1], forks);
    ::close(channel[1]);
    u_short port = 0;
    EXPECT_EQ(::read(channel[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
    url = "rdma://127.0.0.1:" + std::to_string(port);
    lives_ = channel[0];
    if (forks) {
      int status = -1;
      EXPECT_EQ(::waitpid(process, &status, 0), process);
      EXPECT_EQ(status, 0) << "the parent of the daemon";
    } else {
      process_ = process;
    }
  }
  ~Program() {
    // Ended by a call, it closes its end.
    const TirpcClient client = connect(url);
    EXPECT_EQ(call(client.get(), kExit), RPC_SUCCESS);
    char byte = 0;
    EXPECT_EQ(::read(lives_, &byte, 1), 0);
    ::close(lives_);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string url;

 private:
  static constexpr rpcproc_t kExit = 30;

  static void dispatch(svc_req* request, SVCXPRT* transport) {
    if (request->rq_proc != kExit) return serve_echo(request, transport);
    svc_sendreply(transport, coder(xdr_void), nullptr);
    svc_exit();
  }
  [[noreturn]] static void serve(int channel, bool forks) {
    SVCXPRT* const rendezvous = svc_rdma_create("rdma://127.0.0.1:0");
    if (rendezvous == nullptr) ::_exit(1);
    if (!svc_reg(rendezvous, TestService::kProgram, TestService::kVersion, dispatch, nullptr)) {
      ::_exit(1);
    }
    if (::write(channel, &rendezvous->xp_port, sizeof(rendezvous->xp_port)) < 0) ::_exit(1);
    if (forks && ::fork() != 0) std::exit(0);  // not _exit(): objects of the process go
    ::alarm(300);                              // whatever becomes of the test
    svc_run();
    ::_exit(0);
  }

  pid_t process_ = -1;
  int lives_ = -1;
};

TEST(TirpcAdapterProgram, DaemonServesAfterItsParentHasEnded) {
  const Program program(true);
  const TirpcClient client = connect(program.url), another = connect(program.url);
  for (const u_int size : {1U, 300'000U}) {
    expect_echo(client.get(), size);
    expect_echo(another.get(), size);
  }
}

TEST(TirpcAdapterProgram, ServesAThousandConnections) {
  constexpr std::size_t kConnections = 1000;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr rlim_t kWanted = 8 * kConnections;
  if (limit.rlim_max < kWanted) {
    GTEST_SKIP() << "a process may have " << limit.rlim_max << " descriptors, not " << kWanted;
  }
  limit.rlim_cur = std::max(limit.rlim_cur, kWanted);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const Program program(false);
  std::vector<Client> clients;
  for (std::size_t i = 0; i < kConnections; ++i) {
    auto client = Client::connect(program.url);
    ASSERT_TRUE(client) << i << ": " << client.error().message();
    clients.push_back(std::move(*client));
  }
  std::vector<u_int> ports;
  for (Client& each : clients) {
    auto call = each.prepare({TestService::kProgram, TestService::kVersion, kPeer});
    ASSERT_TRUE(call);
    auto reply = each.call(std::move(*call));
    ASSERT_TRUE(reply) << reply.error().message();
    ports.push_back(read(*reply)->xdr().u32("port"));
  }
  std::ranges::sort(ports);
  EXPECT_EQ(std::ranges::adjacent_find(ports), ports.end()) << "each has a transport of its own";
}

}  // namespace
}  // namespace rpcrdma::test
