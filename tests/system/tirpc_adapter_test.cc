// The adapter for programs of libtirpc, linked: its CLIENT at servers of ours, and its server with
// clients of ours and with its own.
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

namespace rpcrdma::test {
namespace {

constexpr timeval kLong{60, 0};       // nothing takes as long
constexpr timeval kShort{0, 20'000};  // of a call that nobody answers

// Before anything reads the adapter's settings.
constexpr u_int kReplyMax = 600'000, kCallMax = 1'000'000;
const bool kAreSet = [] {
  ::setenv("RPCRDMA_TIRPC_REPLY_MAX", std::to_string(kReplyMax).c_str(), 1);
  ::setenv("RPCRDMA_TIRPC_CALL_MAX", std::to_string(kCallMax).c_str(), 1);
  return true;
}();

clnt_stat call(CLIENT* client, rpcproc_t procedure, const timeval& limit = kLong,
               xdrproc_t encode = coder(xdr_void), void* arguments = nullptr,
               xdrproc_t decode = coder(xdr_void), void* results = nullptr) {
  return client->cl_ops->cl_call(client, procedure, encode, arguments, decode, results, limit);
}

void expect_echo(CLIENT* client, u_int size) {
  std::vector<std::byte> data = pattern(size, size);
  Data arguments{size, reinterpret_cast<char*>(data.data())};
  Data results{0, nullptr};
  ASSERT_EQ(call(client, TestService::kEcho, kLong, coder(xdr_data), &arguments, coder(xdr_data),
                 &results),
            RPC_SUCCESS)
      << clnt_sperror(client, "echo");
  EXPECT_TRUE(std::ranges::equal(
      Bytes(reinterpret_cast<const std::byte*>(results.bytes), results.size), data));
  EXPECT_TRUE(clnt_freeres(client, coder(xdr_data), &results));
}

rpc_err error_of(CLIENT* client) {
  rpc_err error{};
  clnt_geterr(client, &error);
  return error;
}

struct ClientEnd {
  void operator()(CLIENT* client) const {
    if (client->cl_auth != nullptr) auth_destroy(client->cl_auth);
    clnt_destroy(client);
  }
};
using TirpcClient = std::unique_ptr<CLIENT, ClientEnd>;

TirpcClient connect(const std::string& url, rpcvers_t version = TestService::kVersion) {
  TirpcClient client(clnt_rdma_create(url.c_str(), TestService::kProgram, version, nullptr));
  EXPECT_TRUE(client) << clnt_spcreateerror(url.c_str());
  return client;
}

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
    if (!client) EXPECT_NE(get_rpc_createerr().cf_stat, RPC_UNKNOWNPROTO) << each.tv_usec;
  }
}

// --- Direct placement

// The TestService's programs under another number, of which there is a table.
constexpr rpcprog_t kBoundProgram = TestService::kProgram + 7;
enum : rpcproc_t { kMany = 40, kMade = 41, kMeasured = 42 };
constexpr std::size_t kManyItems = 12;  // every other is placed
constexpr u_int kManySize = 6'000;
constexpr std::array<rpcrdma_tirpc_procedure, 5> kBoundProcedures = {{
    {TestService::kEcho, 1, 1, TestService::kBulkMax, 8},
    {TestService::kWhoAmI, 0, 0, 0, 4},
    {kMany, 0xaaa, 0xaaa, kManySize, kManyItems*(kManySize + 4)},
    {kMade, 0, 1, TestService::kBulkMax, 8},
    {kMeasured, 0, 1, TestService::kBulkMax, 16},
}};
constexpr rpcrdma_tirpc_table kTable = {kBoundProgram, TestService::kVersion,
                                        kBoundProcedures.data(), kBoundProcedures.size()};

void add_table() {
  static const bool is_added = [] {
    rpcrdma_tirpc_add(&kTable);
    return true;
  }();
  (void)is_added;
}

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

using Many = std::array<Data, kManyItems>;
bool_t xdr_many(XDR* stream, Many* many) {
  return std::ranges::all_of(*many, [&](Data& each) { return xdr_data(stream, &each) == TRUE; });
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

// --- The adapter's server

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
  length = end - start - xdr::kWordSize;
  return xdr_setpos(stream, start) && xdr_u_int(stream, &length) && xdr_setpos(stream, end);
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
    for (u_int size : {0U, 5'000U, 40'001U, 300'001U}) {
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
  // Arguments of another length than they say.
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
