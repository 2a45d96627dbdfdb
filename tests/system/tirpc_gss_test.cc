// RPCSEC_GSS of libtirpc, the library of today's programs, over TCP: its client at a server of
// ours, and our client at its server, with each service. In a realm of the test's own
// (tests/gss/realm.py makes it, and names it by RPCRDMA_TEST_REALM).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <rpc/rpcsec_gss.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "support/checked_reply.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "support/tirpc_data.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kProgram = 0x20010079, kVersion = 1, kEcho = 1;
constexpr u_int kBulkMax = 1U << 20U;
constexpr char kTarget[] = "nfs@localhost", kMechanism[] = "kerberos_v5";

sockaddr_in at_port(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// In a process of its own: what libtirpc keeps of a server is the process's.
class TirpcServer {
 public:
  TirpcServer() {
    std::array<int, 2> channel{};
    EXPECT_EQ(::pipe(channel.data()), 0);
    process_ = ::fork();
    if (process_ == 0) serve(channel[1]);
    ::close(channel[1]);
    EXPECT_EQ(::read(channel[0], &port_, sizeof(port_)), static_cast<ssize_t>(sizeof(port_)));
    ::close(channel[0]);
  }
  ~TirpcServer() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  TirpcServer(const TirpcServer&) = delete;
  TirpcServer& operator=(const TirpcServer&) = delete;

  std::string url() const { return "tcp://localhost:" + std::to_string(port_); }

 private:
  [[noreturn]] static void serve(int channel) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = at_port(0);
    socklen_t size = sizeof(address);
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0) ::_exit(1);
    if (::listen(listener, 5) != 0) ::_exit(1);
    if (::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) ::_exit(1);
    SVCXPRT* const transport = svc_tli_create(listener, nullptr, nullptr, kBulkMax, kBulkMax);
    if (transport == nullptr || !svc_reg(transport, kProgram, kVersion, dispatch, nullptr)) {
      ::_exit(1);
    }
    if (!rpc_gss_set_svc_name(text_of(kTarget), text_of(kMechanism), 0, kProgram, kVersion)) {
      ::_exit(1);
    }
    const std::uint16_t port = ntohs(address.sin_port);
    if (::write(channel, &port, sizeof(port)) != static_cast<ssize_t>(sizeof(port))) ::_exit(1);
    svc_run();
    ::_exit(1);
  }
  static void dispatch(svc_req* request, SVCXPRT* transport) {
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
  std::uint16_t port_ = 0;
};

class TirpcGss : public ::testing::TestWithParam<gss::Service> {
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
};

std::string name_of(const ::testing::TestParamInfo<gss::Service>& each) {
  return each.param == gss::Service::kNone        ? "krb5"
         : each.param == gss::Service::kIntegrity ? "krb5i"
                                                  : "krb5p";
}
INSTANTIATE_TEST_SUITE_P(With, TirpcGss,
                         ::testing::Values(gss::Service::kNone, gss::Service::kIntegrity,
                                           gss::Service::kPrivacy),
                         name_of);

// libtirpc wraps what lies in one fragment of its own, 256 KiB at the most: longer bodies go out
// with a checksum of something else.
constexpr u_int kSizes[] = {0, 1, 3, 4, 1000, 8191, 65'537, 200'000};

TEST_P(TirpcGss, TakesCallsOfOurs) {
  TirpcServer server;  // before there is another thread
  ClientOptions options;
  auto& security = options.auth.emplace<gss::ClientSecurity>();
  security.service = GetParam();
  auto client = Client::connect(server.url(), options);
  ASSERT_TRUE(client) << client.error().message();
  for (const u_int size : kSizes) {
    const Message data = pattern(size, 9);
    Call call = client->prepare({kProgram, kVersion, kEcho}, 512U << 10U).value();
    call.arguments().xdr().opaque(data);
    auto reply = client->call(std::move(call));
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->xdr().opaque(kBulkMax, "data"), data)) << size;
    EXPECT_EQ(reply->finish(), std::nullopt);
  }
  client->identity().log_out();
}

TEST_P(TirpcGss, CallsAServerOfOurs) {
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
  Server server = Server::listen("tcp://127.0.0.1:0").value();
  ASSERT_TRUE(server.add(kProgram, kVersion, service));
  ASSERT_TRUE(server.secure());
  std::thread serving([&] { server.run(); });
  const std::string address(server.address());
  sockaddr_in to =
      at_port(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  netbuf where{sizeof(to), sizeof(to), &to};
  netconfig* const over = getnetconfigent(text_of("tcp"));
  CLIENT* const client =
      clnt_tli_create(RPC_ANYFD, over, &where, kProgram, kVersion, kBulkMax, kBulkMax);
  freenetconfigent(over);
  EXPECT_NE(client, nullptr);
  rpc_gss_options_ret_t got{};
  const auto protection = static_cast<rpc_gss_service_t>(GetParam());
  AUTH* const auth = rpc_gss_seccreate(client, text_of(kTarget), text_of(kMechanism), protection,
                                       nullptr, nullptr, &got);
  EXPECT_NE(auth, nullptr) << got.major_status;
  if (auth != nullptr) {
    client->cl_auth = auth;
    const timeval limit{20, 0};
    for (const u_int size : kSizes) {
      if (size == 0) continue;  // our service has no memory of no bytes
      Message data = pattern(size, 9), place(kBulkMax);
      Data arguments{size, reinterpret_cast<char*>(data.data())};
      Data results{0, reinterpret_cast<char*>(place.data())};
      EXPECT_EQ(client->cl_ops->cl_call(client, kEcho, coder(xdr_data), &arguments, coder(xdr_data),
                                        &results, limit),
                RPC_SUCCESS)
          << size;
      place.resize(results.size);
      EXPECT_TRUE(place == data) << size;
    }
    auth_destroy(auth);  // RPCSEC_GSS_DESTROY, by this client
    client->cl_auth = authnone_create();
  }
  clnt_destroy(client);
  server.stop();
  serving.join();
  EXPECT_EQ(principal, "alice@LAB.TEST");
  EXPECT_EQ(seen, std::vector(std::size(kSizes) - 1,
                              Protection{390002 + static_cast<std::uint32_t>(GetParam())}));
}

}  // namespace
}  // namespace rpcrdma::test
