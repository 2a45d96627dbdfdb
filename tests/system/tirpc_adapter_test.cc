// The adapter for programs of libtirpc, linked: its CLIENT at servers of ours.
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

// --- The adapter's client at a server of ours

class TirpcAdapterClient : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }
  void start(const ServerOptions& options) {
    stop();
    server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", options)));
    ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
    serving = std::thread([this] { server->run(); });
    url = "rdma://" + std::string(server->address());
  }
  void stop() {
    if (!server) return;
    server->stop();
    if (serving.joinable()) serving.join();
    server.reset();
  }
  void TearDown() override { stop(); }
  static ServerOptions quick_to_end() {
    ServerOptions options;
    options.drain_timeout = std::chrono::milliseconds(1);
    return options;
  }

  TestService service;
  std::optional<Server> server;
  std::thread serving;
  std::string url;
};

TEST_F(TirpcAdapterClient, CallsAreAnswered) {
  const TirpcClient client = connect(url);
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
  for (const u_int size : {0U, 1U, 4'000U, 300'000U}) expect_echo(client.get(), size);
}

TEST_F(TirpcAdapterClient, CredentialIsSeen) {
  const TirpcClient client = connect(url);
  char machine[] = "here";
  auth_destroy(client->cl_auth);
  client->cl_auth = authunix_create(machine, 4711, 100, 0, nullptr);
  u_int uid = 0;
  EXPECT_EQ(call(client.get(), TestService::kWhoAmI, kLong, coder(xdr_void), nullptr,
                 coder(xdr_u_int), &uid),
            RPC_SUCCESS);
  EXPECT_EQ(uid, 4711U);
}

TEST_F(TirpcAdapterClient, RefusalsAreUnderstood) {
  const TirpcClient other = connect(url, TestService::kVersion + 1);
  EXPECT_EQ(call(other.get(), 0), RPC_PROGVERSMISMATCH);
  EXPECT_EQ(error_of(other.get()).re_vers.low, TestService::kVersion);
  const TirpcClient client = connect(url);
  EXPECT_EQ(call(client.get(), 99), RPC_PROCUNAVAIL);
  EXPECT_EQ(call(client.get(), TestService::kGarbage), RPC_CANTDECODEARGS);
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
}

TEST_F(TirpcAdapterClient, CallThatTimesOutLeavesTheConnectionToOthers) {
  start(quick_to_end());
  const TirpcClient client = connect(url);
  expect_echo(client.get(), 100);  // which grants more than one credit
  EXPECT_EQ(call(client.get(), TestService::kHold, kShort), RPC_TIMEDOUT);
  EXPECT_STREQ(clnt_sperror(client.get(), "hold"), "hold: RPC: Timed out");
  for (const u_int size : {1U, 300'000U}) expect_echo(client.get(), size);
}

TEST_F(TirpcAdapterClient, LongCallThatTimesOutKeepsItsBytesUntilItHasEnded) {
  start(quick_to_end());
  const TirpcClient client = connect(url);
  expect_echo(client.get(), 100);
  std::vector<std::byte> data = pattern(200'000, 1);
  Data arguments{200'000, reinterpret_cast<char*>(data.data())};
  // Sent as a whole, which the server reads while nobody waits here.
  EXPECT_EQ(call(client.get(), TestService::kHold, timeval{0, 1}, coder(xdr_data), &arguments),
            RPC_TIMEDOUT);
  for (int i = 0; i < 20; ++i) expect_echo(client.get(), 10'000);
}

TEST_F(TirpcAdapterClient, ConnectionEndsWhenCallsThatTimedOutHoldEveryCredit) {
  ServerOptions options = quick_to_end();
  options.connection.credits = 3;
  start(options);
  const TirpcClient client = connect(url);
  expect_echo(client.get(), 100);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(call(client.get(), TestService::kHold, kShort), RPC_TIMEDOUT) << i;
  }
  EXPECT_EQ(call(client.get(), 0), RPC_CANTSEND);
  EXPECT_STREQ(clnt_sperror(client.get(), "null"),
               "null: RPC: Unable to send; errno = Broken pipe");
}

TEST_F(TirpcAdapterClient, EndOfTheServerIsAnError) {
  start(quick_to_end());
  const TirpcClient client = connect(url);
  expect_echo(client.get(), 100);
  std::thread ending([this] {
    for (bool is_held = false; !is_held;) {
      is_held = server->statistics().calls_in_service > 0;
      std::this_thread::yield();
    }
    server->stop();
    serving.join();
    server.reset();
  });
  EXPECT_EQ(call(client.get(), TestService::kHold), RPC_CANTRECV);
  ending.join();
  EXPECT_STREQ(clnt_sperror(client.get(), "hold"),
               "hold: RPC: Unable to receive; errno = Connection reset by peer");
  EXPECT_EQ(call(client.get(), 0), RPC_CANTSEND);
}

TEST_F(TirpcAdapterClient, CallWithoutAReplyIsRefused) {
  const TirpcClient client = connect(url);
  EXPECT_EQ(call(client.get(), 0, timeval{0, 0}), RPC_CANTSEND);
  EXPECT_STREQ(clnt_sperror(client.get(), "one way"),
               "one way: RPC: Unable to send; errno = Operation not supported");
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
}

TEST_F(TirpcAdapterClient, ReplyLongerThanItsRoomIsAnError) {
  const TirpcClient client = connect(url);
  u_int size = kReplyMax + 10'000;
  Data results{0, nullptr};
  EXPECT_EQ(call(client.get(), TestService::kProduce, kLong, coder(xdr_u_int), &size,
                 coder(xdr_data), &results),
            RPC_CANTDECODERES);
  expect_echo(client.get(), 300'000);
}

TEST_F(TirpcAdapterClient, ResultsThatAreNoneAreAnError) {
  const TirpcClient client = connect(url);
  u_int size = 8, number = 0;
  std::array<char, 100> place{};
  char* text = place.data();
  // An opaque whose length is said to be 8 is too short to be text and two numbers.
  struct Pair {
    static bool_t decode(XDR* stream, std::pair<char**, u_int*>* to) {
      return xdr_string(stream, to->first, 90) == TRUE && xdr_u_int(stream, to->second) == TRUE;
    }
  };
  std::pair<char**, u_int*> results{&text, &number};
  EXPECT_EQ(call(client.get(), TestService::kProduce, kLong, coder(xdr_u_int), &size,
                 coder(Pair::decode), &results),
            RPC_CANTDECODERES);
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
}

TEST_F(TirpcAdapterClient, ArgumentsThatAreTooLongAreNotSent) {
  const TirpcClient client = connect(url);
  std::vector<std::byte> data(kCallMax + 1);
  Data arguments{static_cast<u_int>(data.size()), reinterpret_cast<char*>(data.data())};
  EXPECT_EQ(call(client.get(), TestService::kEcho, kLong, coder(xdr_data), &arguments),
            RPC_CANTENCODEARGS);
  expect_echo(client.get(), 10);
}

TEST_F(TirpcAdapterClient, ControlAnswersAsOverTcp) {
  const TirpcClient client = connect(url);
  CLIENT* const handle = client.get();
  sockaddr_in address{};
  ASSERT_TRUE(clnt_control(handle, CLGET_SERVER_ADDR, &address));
  EXPECT_EQ(url, "rdma://127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  netbuf buffer{};
  ASSERT_TRUE(clnt_control(handle, CLGET_SVC_ADDR, &buffer));
  EXPECT_EQ(buffer.len, sizeof(address));
  timeval limit{7, 8};
  EXPECT_TRUE(clnt_control(handle, CLSET_TIMEOUT, &limit));
  limit = {};
  EXPECT_TRUE(clnt_control(handle, CLGET_TIMEOUT, &limit));
  EXPECT_EQ(limit.tv_sec, 7);
  limit.tv_sec = -1;
  EXPECT_FALSE(clnt_control(handle, CLSET_TIMEOUT, &limit));
  // Programs set that of UDP, and give up if they cannot.
  EXPECT_FALSE(clnt_control(handle, CLSET_RETRY_TIMEOUT, &limit));
  limit = {9, 0};
  EXPECT_TRUE(clnt_control(handle, CLSET_RETRY_TIMEOUT, &limit));
  limit = {};
  EXPECT_TRUE(clnt_control(handle, CLGET_RETRY_TIMEOUT, &limit));
  EXPECT_EQ(limit.tv_sec, 9);
  std::uint32_t number = 77, read = 0;
  EXPECT_TRUE(clnt_control(handle, CLSET_XID, &number));
  EXPECT_EQ(call(handle, 0), RPC_SUCCESS);
  EXPECT_TRUE(clnt_control(handle, CLGET_XID, &read));
  EXPECT_EQ(read, 77U);
  EXPECT_TRUE(clnt_control(handle, CLGET_PROG, &read));
  EXPECT_EQ(read, TestService::kProgram);
  number = TestService::kVersion + 1;
  EXPECT_TRUE(clnt_control(handle, CLSET_VERS, &number));
  EXPECT_TRUE(clnt_control(handle, CLGET_VERS, &read));
  EXPECT_EQ(read, number);
  EXPECT_EQ(call(handle, 0), RPC_PROGVERSMISMATCH);
  int fd = -1;
  EXPECT_TRUE(clnt_control(handle, CLGET_FD, &fd));
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);
  EXPECT_TRUE(clnt_control(handle, CLSET_FD_CLOSE, nullptr));
  EXPECT_FALSE(clnt_control(handle, CLSET_SVC_ADDR, &buffer));
  EXPECT_FALSE(clnt_control(handle, CLGET_VERS, nullptr));
}

// The longer of a time-out that was set and one of the call is the one that was set.
TEST_F(TirpcAdapterClient, TimeoutThatWasSetHoldsForEachCall) {
  start(quick_to_end());
  const TirpcClient client = connect(url);
  expect_echo(client.get(), 100);
  timeval limit = kShort;
  ASSERT_TRUE(clnt_control(client.get(), CLSET_TIMEOUT, &limit));
  EXPECT_EQ(call(client.get(), TestService::kHold, kLong), RPC_TIMEDOUT);
}

// A time-out of a call counts for nothing beside it, as over TCP, be either of them zero.
TEST_F(TirpcAdapterClient, TimeoutThatWasSetHoldsForCallsWithoutOne) {
  const TirpcClient client = connect(url);
  timeval limit = kLong;
  ASSERT_TRUE(clnt_control(client.get(), CLSET_TIMEOUT, &limit));
  EXPECT_EQ(call(client.get(), 0, timeval{0, 0}), RPC_SUCCESS);
  limit = {};
  ASSERT_TRUE(clnt_control(client.get(), CLSET_TIMEOUT, &limit));
  EXPECT_EQ(call(client.get(), 0), RPC_CANTSEND);
  EXPECT_EQ(error_of(client.get()).re_errno, EOPNOTSUPP);
}

// The server has executed it: a credential that could be refreshed is no reason to do so again.
TEST_F(TirpcAdapterClient, CallWhoseReplyProvesNothingIsNotRepeated) {
  struct Auth {
    static bool_t validate(AUTH*, opaque_auth*) { return FALSE; }
    static bool_t refresh(AUTH*, void*) { return TRUE; }
  };
  const TirpcClient client = connect(url);
  AUTH* const none = client->cl_auth;
  auto operations = *none->ah_ops;
  operations.ah_validate = Auth::validate;
  operations.ah_refresh = Auth::refresh;
  AUTH doubting = *none;
  doubting.ah_ops = &operations;
  client->cl_auth = &doubting;
  std::uint32_t first = 0;  // they are counted down
  EXPECT_TRUE(clnt_control(client.get(), CLGET_XID, &first));
  EXPECT_EQ(call(client.get(), 0), RPC_AUTHERROR);
  EXPECT_EQ(error_of(client.get()).re_why, AUTH_INVALIDRESP);
  std::uint32_t second = 0;
  EXPECT_TRUE(clnt_control(client.get(), CLGET_XID, &second));
  EXPECT_EQ(first - second, 1U);
  EXPECT_EQ(call(client.get(), 99), RPC_PROCUNAVAIL);
  EXPECT_TRUE(clnt_control(client.get(), CLGET_XID, &second));
  EXPECT_EQ(first - second, 2U);
  client->cl_auth = none;
}

// Runs `act` in a process that is so many generations away, and waits for it.
template <class Act>
void run_in_descendant(int generations, const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);
    generations > 1 ? run_in_descendant(generations - 1, act) : act();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A program whose child or grandchild tidies up keeps its connection, as it does over TCP.
TEST_F(TirpcAdapterClient, DescendantThatDestroysAClientLeavesItToItsOwner) {
  const TirpcClient client = connect(url);
  for (const int generations : {1, 2}) {
    expect_echo(client.get(), 100);
    run_in_descendant(generations, [&client] { clnt_destroy(client.get()); });
    for (const u_int size : {1U, 300'000U}) expect_echo(client.get(), size);
  }
}

TEST_F(TirpcAdapterClient, ThreadsShareAClient) {
  const TirpcClient client = connect(url);
  std::vector<std::thread> threads;
  for (u_int i = 0; i < 4; ++i) {
    threads.emplace_back([&client, i] {
      for (u_int j = 0; j < 30; ++j) expect_echo(client.get(), 1'000 * i + 300 * j);
    });
  }
  for (auto& each : threads) each.join();
}

TEST_F(TirpcAdapterClient, ErrorsOfMakingOneAreThoseOfLibtirpc) {
  const auto refused = [](const char* place) {
    EXPECT_EQ(clnt_rdma_create(place, TestService::kProgram, 1, nullptr), nullptr);
    return get_rpc_createerr();
  };
  const std::string gone = url;
  stop();
  EXPECT_EQ(refused(gone.c_str()).cf_stat, RPC_SYSTEMERROR);
  EXPECT_STREQ(clnt_spcreateerror("here"), "here: RPC: Remote system error - Connection refused");
  EXPECT_EQ(refused("rdma://127.0.0.1:99999999").cf_stat, RPC_UNKNOWNADDR);
  EXPECT_EQ(refused(nullptr).cf_stat, RPC_UNKNOWNHOST);
  EXPECT_EQ(refused("rdma://no-such-host.invalid").cf_stat, RPC_UNKNOWNHOST);
}

TEST_F(TirpcAdapterClient, AnyTimeoutOfMakingOneIsTaken) {
  constexpr std::time_t kEver = std::numeric_limits<std::time_t>::max();
  for (const timeval each : {timeval{kEver, 0}, timeval{kEver, kEver}, timeval{-1, 0}}) {
    const TirpcClient client(
        clnt_rdma_create(url.c_str(), TestService::kProgram, TestService::kVersion, &each));
    ASSERT_TRUE(client) << clnt_spcreateerror(url.c_str());
    EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
  }
  // So little that it may be over at once.
  for (const timeval each : {timeval{0, 900}, timeval{0, 0}}) {
    const TirpcClient client(
        clnt_rdma_create(url.c_str(), TestService::kProgram, TestService::kVersion, &each));
    if (!client) {
      EXPECT_NE(get_rpc_createerr().cf_stat, RPC_UNKNOWNPROTO) << each.tv_usec;
    }
  }
}

// --- Direct placement

TEST(TirpcAdapterPlacement, TableOfNfsIsBuiltIn) {
  // Data of WRITE goes by a Read chunk, behind the file handle.
  struct Write {
    static bool_t encode(XDR* stream, Data* data) {
      char handle[8] = "1234567";
      char* place = handle;
      u_int size = sizeof(handle);
      std::array<u_int, 4> words = {0, 0, data->size, 0};
      return xdr_bytes(stream, &place, &size, 64) == TRUE &&
             std::ranges::all_of(words, [&](u_int& each) { return xdr_u_int(stream, &each); }) &&
             xdr_bytes(stream, &data->bytes, &data->size, ~0U) == TRUE;
    }
  };
  constexpr rpcproc_t kWrite = 7;
  FunctionService nfs;
  std::size_t arrived = 0;
  nfs.on(kWrite,
         [&](CallContext& context) {
           MessageReader& arguments = context.arguments();
           (void)arguments.xdr().opaque(64, "handle");
           for (int i = 0; i < 4; ++i) (void)arguments.xdr().u32("word");
           arrived = arguments.bulk(1U << 20U, "data").size();
           const bool is_placed = arguments.last_was_placed();
           if (!arguments.finish() || !is_placed) return AcceptStatus::kGarbageArgs;
           return AcceptStatus::kSuccess;
         },
         {.bulk_argument_size_max = 1U << 20U});
  Server server = Server::listen("rdma://127.0.0.1:0").value();
  ASSERT_TRUE(server.add(100003, 3, nfs));
  std::thread serving([&] { server.run(); });
  {
    const std::string url = "rdma://" + std::string(server.address());
    const TirpcClient client(clnt_rdma_create(url.c_str(), 100003, 3, nullptr));
    ASSERT_TRUE(client);
    std::vector<std::byte> data = pattern(100'000, 1);
    Data arguments{100'000, reinterpret_cast<char*>(data.data())};
    EXPECT_EQ(call(client.get(), kWrite, kLong, coder(Write::encode), &arguments), RPC_SUCCESS);
  }
  server.stop();
  serving.join();
  EXPECT_EQ(arrived, 100'000U);
}

TEST_F(TirpcAdapterClient, DataOfTablesIsPlacedBothWays) {
  add_table();
  stop();
  server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0")));
  ASSERT_TRUE(server->add(kBoundProgram, TestService::kVersion, service));
  serving = std::thread([this] { server->run(); });
  url = "rdma://" + std::string(server->address());
  const TirpcClient client(
      clnt_rdma_create(url.c_str(), kBoundProgram, TestService::kVersion, nullptr));
  ASSERT_TRUE(client);
  for (const u_int size : {0U, 1U, 4'095U, 4'096U, 4'097U, 70'000U, 300'001U}) {
    expect_echo(client.get(), size);
  }
  const TransferCounters counters = server->statistics().counters;
  EXPECT_EQ(counters.read_chunks, 2U);
  EXPECT_EQ(counters.read_chunk_bytes, 370'001U);
  EXPECT_EQ(counters.write_chunk_bytes, 370'001U + 4'095 + 4'096 + 4'097 + 1);
  EXPECT_EQ(counters.long_calls + counters.long_replies, 0U);
}

// As a server without the table does, or one of another make.
TEST_F(TirpcAdapterClient, DataOfTablesIsTakenFromTheReplyToo) {
  add_table();
  stop();
  FunctionService echo;
  echo.on(TestService::kEcho,
          [](CallContext& context) {
            const Bytes data = context.arguments().bulk(TestService::kBulkMax, "data");
            const auto size = static_cast<std::uint32_t>(data.size());
            if (!context.reserve_results(size + 16)) return AcceptStatus::kSystemErr;
            context.results().xdr().opaque(data);
            return AcceptStatus::kSuccess;
          },
          {.bulk_argument_size_max = TestService::kBulkMax});
  server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0")));
  ASSERT_TRUE(server->add(kBoundProgram, TestService::kVersion, echo));
  serving = std::thread([this] { server->run(); });
  url = "rdma://" + std::string(server->address());
  const TirpcClient client(
      clnt_rdma_create(url.c_str(), kBoundProgram, TestService::kVersion, nullptr));
  ASSERT_TRUE(client);
  for (const u_int size : {0U, 1U, 2'000U, 5'000U, 300'001U}) expect_echo(client.get(), size);
  stop();  // in front of the end of its service
}

TEST_F(TirpcAdapterClient, CallThatTimesOutGivesItsArgumentsBack) {
  add_table();
  stop();
  server.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", quick_to_end())));
  struct Hold final : Service {
    const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
      static constexpr ProcedureTraits kTraits{.bulk_argument_size_max = 1U << 20U};
      return &kTraits;
    }
    void call(CallContext& /*context*/) override {}  // never answered
  } hold;
  ASSERT_TRUE(server->add(kBoundProgram, TestService::kVersion, hold));
  serving = std::thread([this] { server->run(); });
  url = "rdma://" + std::string(server->address());
  const TirpcClient client(
      clnt_rdma_create(url.c_str(), kBoundProgram, TestService::kVersion, nullptr));
  ASSERT_TRUE(client);
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);  // which grants more than one credit
  for (int i = 0; i < 5; ++i) {
    std::vector<std::byte> data = pattern(200'000, 1);
    Data arguments{200'000, reinterpret_cast<char*>(data.data())};
    EXPECT_EQ(call(client.get(), TestService::kEcho, kShort, coder(xdr_data), &arguments),
              RPC_TIMEDOUT);
  }
  EXPECT_EQ(call(client.get(), 0), RPC_SUCCESS);
  stop();  // in front of the end of its service
}

}  // namespace
}  // namespace rpcrdma::test
