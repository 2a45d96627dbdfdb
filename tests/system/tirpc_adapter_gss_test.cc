// libtirpc's own RPCSEC_GSS over RDMA, by the adapter: its checksums cover the messages as they
// are. In a realm of the test's own (tests/gss/realm.py makes it, and names it by
// RPCRDMA_TEST_REALM).
#include <gtest/gtest.h>
#include <rpc/rpc.h>
#include <rpc/rpcsec_gss.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
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

constexpr std::uint32_t kProgram = 0x20010079, kVersion = 1, kEcho = 1;
constexpr rpcproc_t kUser = 2;
constexpr u_int kBulkMax = 1U << 20U;
constexpr char kTarget[] = "nfs@localhost", kMechanism[] = "kerberos_v5";
constexpr timeval kLimit{60, 0};
// The larger ones fail with checksums over libtirpc's TCP.
constexpr u_int kSizes[] = {1, 3, 4, 1000, 8191, 65'537, 300'000};

// In a process of its own: what libtirpc keeps of a server is the process's.
class AdapterServer {
 public:
  AdapterServer() {
    std::array<int, 2> channel{};
    EXPECT_EQ(::pipe(channel.data()), 0);
    process_ = ::fork();
    if (process_ == 0) serve(channel[1]);
    ::close(channel[1]);
    u_short port = 0;
    EXPECT_EQ(::read(channel[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
    ::close(channel[0]);
    url = "rdma://localhost:" + std::to_string(port);
  }
  ~AdapterServer() {
    // A fault that a sanitizer saw has ended it.
    EXPECT_EQ(::waitpid(process_, nullptr, WNOHANG), 0) << "the server has ended";
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  AdapterServer(const AdapterServer&) = delete;
  AdapterServer& operator=(const AdapterServer&) = delete;

  std::string url;

 private:
  [[noreturn]] static void serve(int channel) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    SVCXPRT* const transport = svc_rdma_create("rdma://127.0.0.1:0");
    if (transport == nullptr || !svc_reg(transport, kProgram, kVersion, dispatch, nullptr)) {
      ::_exit(1);
    }
    if (!rpc_gss_set_svc_name(text_of(kTarget), text_of(kMechanism), 0, kProgram, kVersion)) {
      ::_exit(1);
    }
    if (::write(channel, &transport->xp_port, sizeof(transport->xp_port)) < 0) ::_exit(1);
    svc_run();
    ::_exit(1);
  }
  static void dispatch(svc_req* request, SVCXPRT* transport) {
    if (request->rq_proc == kUser) {
      rpc_gss_rawcred_t* credential = nullptr;
      char nobody[] = "nobody";
      char* user = nobody;
      if (rpc_gss_getcred(request, &credential, nullptr, nullptr)) {
        user = credential->client_principal->name;
      }
      svc_sendreply(transport, coder(xdr_wrapstring), &user);
      return;
    }
    if (request->rq_proc != kEcho) {  // among them RPCSEC_GSS_DESTROY
      svc_sendreply(transport, coder(xdr_void), nullptr);
      return;
    }
    Data data{0, nullptr};
    if (!svc_getargs(transport, coder(xdr_data), reinterpret_cast<char*>(&data))) {
      svcerr_decode(transport);
      return;
    }
    svc_sendreply(transport, coder(xdr_data), reinterpret_cast<char*>(&data));
    svc_freeargs(transport, coder(xdr_data), reinterpret_cast<char*>(&data));
  }

  pid_t process_ = -1;
};

class TirpcAdapterGss : public ::testing::TestWithParam<gss::Service> {
 protected:
  void SetUp() override {
    if (std::getenv("RPCRDMA_TEST_REALM") == nullptr) {
      GTEST_SKIP() << "RPCRDMA_TEST_REALM names no realm";
    }
    ::setenv("KRB5_KTNAME", (in_realm("localhost.keytab")).c_str(), 1);
    ::setenv("KRB5CCNAME", ("FILE:" + in_realm("alice.ccache")).c_str(), 1);
  }
  static std::string in_realm(const std::string& file) {
    return std::string(std::getenv("RPCRDMA_TEST_REALM")) + "/" + file;
  }

  // The adapter's client with a context of libtirpc's, and calls of each size.
  static void expect_echoes(const std::string& url) {
    CLIENT* const client = clnt_rdma_create(url.c_str(), kProgram, kVersion, nullptr);
    ASSERT_NE(client, nullptr) << clnt_spcreateerror(url.c_str());
    auth_destroy(client->cl_auth);
    rpc_gss_options_ret_t got{};
    AUTH* const auth =
        rpc_gss_seccreate(client, text_of(kTarget), text_of(kMechanism),
                          static_cast<rpc_gss_service_t>(GetParam()), nullptr, nullptr, &got);
    EXPECT_NE(auth, nullptr) << got.major_status;
    if (auth != nullptr) {
      client->cl_auth = auth;
      for (const u_int size : kSizes) echo(client, size);
      auth_destroy(auth);  // RPCSEC_GSS_DESTROY, by this client
    }
    clnt_destroy(client);
  }
  static void echo(CLIENT* client, u_int size) {
    std::vector<std::byte> data = pattern(size, 9), place(kBulkMax);
    Data arguments{size, reinterpret_cast<char*>(data.data())};
    Data results{0, reinterpret_cast<char*>(place.data())};
    EXPECT_EQ(client->cl_ops->cl_call(client, kEcho, coder(xdr_data), &arguments, coder(xdr_data),
                                      &results, kLimit),
              RPC_SUCCESS)
        << size << clnt_sperror(client, "");
    place.resize(results.size);
    EXPECT_TRUE(place == data) << size;
  }
};

INSTANTIATE_TEST_SUITE_P(With, TirpcAdapterGss,
                         ::testing::Values(gss::Service::kNone, gss::Service::kIntegrity,
                                           gss::Service::kPrivacy),
                         [](const auto& each) {
                           return each.param == gss::Service::kNone        ? "krb5"
                                  : each.param == gss::Service::kIntegrity ? "krb5i"
                                                                           : "krb5p";
                         });

TEST_P(TirpcAdapterGss, CallsItsOwnServer) {
  const AdapterServer server;  // before there is another thread
  // Each connection has its context, which goes with it.
  for (int i = 0; i < 3; ++i) expect_echoes(server.url);
}

TEST_P(TirpcAdapterGss, CallsAServerOfOurs) {
  FunctionService service;
  std::string principal;
  std::vector<Protection> seen;
  service.on(kEcho,
             [&](CallContext& context) {
               principal = context.caller().principal;
               seen.push_back(context.caller().protection);
               const Bytes data = context.arguments().bulk(kBulkMax, "data");
               if (!context.arguments().finish()) return AcceptStatus::kGarbageArgs;
               const MutableBytes room =
                   context.result_memory(static_cast<std::uint32_t>(data.size()));
               std::ranges::copy(data, room.begin());
               context.results().bulk(room);
               return AcceptStatus::kSuccess;
             },
             {.bulk_argument_size_max = kBulkMax});
  Server server = Server::listen("rdma://127.0.0.1:0").value();
  ASSERT_TRUE(server.add(kProgram, kVersion, service));
  ASSERT_TRUE(server.secure());
  std::thread serving([&] { server.run(); });
  expect_echoes("rdma://" + std::string(server.address()));
  server.stop();
  serving.join();
  EXPECT_EQ(principal, "alice@LAB.TEST");
  EXPECT_EQ(seen, std::vector(std::size(kSizes),
                              Protection{390002 + static_cast<std::uint32_t>(GetParam())}));
}

TEST_P(TirpcAdapterGss, AnswersAClientOfOurs) {
  const AdapterServer server;
  ClientOptions options;
  auto& security = options.auth.emplace<gss::ClientSecurity>();
  security.service = GetParam();
  auto client = Client::connect(server.url, options);
  ASSERT_TRUE(client) << client.error().message();
  for (const u_int size : kSizes) {
    const std::vector<std::byte> data = pattern(size, 9);
    Call call = client->prepare({kProgram, kVersion, kEcho}, 512U << 10U).value();
    call.arguments().xdr().opaque(data);
    call.expect_results(400'000);
    auto reply = client->call(std::move(call));
    ASSERT_TRUE(reply) << size << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->xdr().opaque(kBulkMax, "data"), data)) << size;
    EXPECT_EQ(reply->finish(), std::nullopt);
  }
  Call call = client->prepare({kProgram, kVersion, kUser}).value();
  auto reply = client->call(std::move(call));
  ASSERT_TRUE(reply) << reply.error().message();
  EXPECT_GT(read(*reply)->xdr().string(1000, "user").size(), 0U);
  client->identity().log_out();
}

}  // namespace
}  // namespace rpcrdma::test
