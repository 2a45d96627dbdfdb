// Kerberos 5 over siwarp and TCP, with a server on a thread of its own, in a realm of the test's
// own (tests/gss/realm.py makes it, and names it by RPCRDMA_TEST_REALM).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
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

// The sanitizer asks for it: MIT's library (1.20) loses some bytes when an acceptor's keytab is not
// there.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() {
  return "leak:krb5_build_principal_alloc_va\n";
}

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kProgram = 0x20010078, kVersion = 1, kWho = 1, kEcho = 2;
constexpr std::uint32_t kBulkMax = 2U << 20U;

std::string in_realm(const std::string& file) {
  const char* const folder = std::getenv("RPCRDMA_TEST_REALM");
  return folder != nullptr ? std::string(folder) + "/" + file : std::string();
}

class Krb5 : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (in_realm("").empty()) GTEST_SKIP() << "RPCRDMA_TEST_REALM names no realm";
    service_.on(kWho, [](CallContext& context) {
      const Caller caller = context.caller();
      context.results().xdr().u32(static_cast<std::uint32_t>(caller.protection));
      context.results().xdr().string(caller.principal);
      return AcceptStatus::kSuccess;
    });
    service_.on(kEcho,
                [](CallContext& context) {
                  const Bytes data = context.arguments().bulk(kBulkMax, "data");
                  if (!context.arguments().finish()) return AcceptStatus::kGarbageArgs;
                  const MutableBytes room =
                      context.result_memory(static_cast<std::uint32_t>(data.size()));
                  if (room.size() != data.size()) return AcceptStatus::kSystemErr;
                  std::ranges::copy(data, room.begin());
                  context.results().bulk(room);
                  return AcceptStatus::kSuccess;
                },
                {.bulk_argument_size_max = kBulkMax});
    serve("localhost.keytab");
  }
  void TearDown() override { stop(); }

  void serve(const std::string& keytab) {
    stop();
    ServerOptions options;
    options.bulk_size_max = options.long_call_size_max = kBulkMax + (64U << 10U);
    options.tcp.record_size_max = kBulkMax + (64U << 10U);
    auto server = Server::listen("rdma://localhost:0", options);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    const auto plain = server_->add_listener("tcp://localhost:0");
    ASSERT_TRUE(plain) << plain.error().message();
    ASSERT_TRUE(server_->add(kProgram, kVersion, service_));
    gss::ServerSecurity security;
    security.kerberos.keytab = in_realm(keytab);
    const auto secured = server_->secure(security);
    ASSERT_TRUE(secured) << secured.error().message();
    const std::string_view address =
        std::string_view(GetParam()) == "tcp" ? std::string_view(*plain) : server_->address();
    url_ =
        std::string(GetParam()) + "://localhost" + std::string(address.substr(address.rfind(':')));
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  Client connect(gss::Service service, const std::string& user = "alice") {
    ClientOptions options;
    auto& security = options.auth.emplace<gss::ClientSecurity>();
    security.service = service;
    security.kerberos.tickets = "FILE:" + in_realm(user + ".ccache");
    auto client = Client::connect(url_, options);
    EXPECT_TRUE(client) << client.error().message();
    return std::move(*client);
  }
  static std::pair<Protection, std::string> who(Client& client) {
    auto reply = client.call(client.prepare({kProgram, kVersion, kWho}).value());
    EXPECT_TRUE(reply) << reply.error().message();
    if (!reply) return {};
    const auto protection = Protection{read(*reply)->xdr().u32("protection")};
    return {protection, std::string(read(*reply)->xdr().string(100, "principal"))};
  }
  static void expect_echo(Client& client, std::size_t size) {
    const Message data = pattern(size, 5);
    Message place(size);
    Call call = client.prepare({kProgram, kVersion, kEcho}).value();
    call.arguments().bulk(data);
    call.place_result(place);
    auto reply = client.call(std::move(call));
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(kBulkMax, "data"), data));
    EXPECT_EQ(reply->finish(), std::nullopt);
    EXPECT_TRUE(place == data);
  }

  FunctionService service_;
  std::optional<Server> server_;
  std::string url_;
  std::thread thread_;
};

INSTANTIATE_TEST_SUITE_P(OverEach, Krb5, ::testing::Values("rdma", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Krb5, EachServiceProvesTheCallerAndMovesAllSizes) {
  const std::pair<gss::Service, Protection> cases[] = {
      {gss::Service::kNone, Protection::kKrb5},
      {gss::Service::kIntegrity, Protection::kKrb5i},
      {gss::Service::kPrivacy, Protection::kKrb5p}};
  for (const auto& [service, protection] : cases) {
    Client client = connect(service);
    EXPECT_EQ(who(client), std::pair(protection, std::string("alice@LAB.TEST")));
    for (const std::size_t size : {1U, 2U, 3U, 4U, 1000U, 9001U, 65'535U, 1'048'577U}) {
      expect_echo(client, size);
    }
    client.identity().log_out();
  }
}

TEST_P(Krb5, DistinguishesTheUsersOfOneServer) {
  Client alice = connect(gss::Service::kIntegrity), bob = connect(gss::Service::kPrivacy, "bob");
  EXPECT_EQ(who(alice).second, "alice@LAB.TEST");
  EXPECT_EQ(who(bob).second, "bob@LAB.TEST");
}

TEST_P(Krb5, WithoutATicketTheErrorSaysWhatToDo) {
  Client client = connect(gss::Service::kNone, "nobody");
  auto reply = client.call(client.prepare({kProgram, kVersion, kWho}).value());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kSecurity);
  EXPECT_NE(reply.error().cause.find("kinit"), std::string::npos) << reply.error().message();
}

TEST_P(Krb5, ServerWithoutItsKeyRefusesContexts) {
  serve("missing.keytab");
  Client client = connect(gss::Service::kNone);
  auto reply = client.call(client.prepare({kProgram, kVersion, kWho}).value());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kSecurity);
  EXPECT_NE(reply.error().cause.find("keytab"), std::string::npos) << reply.error().message();
}

// Its handles are those of an earlier life, which the new server knows nothing of.
TEST_P(Krb5, ServerThatWasStartedAgainGetsAnotherContext) {
  Client before = connect(gss::Service::kPrivacy);
  expect_echo(before, 100);
  serve("localhost.keytab");
  Client client = connect(gss::Service::kPrivacy);
  expect_echo(client, 100);
}

}  // namespace
}  // namespace rpcrdma::test
