#include "rpcbind/service.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "rpcbind_fields.h"
#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"

namespace rpcrdma::rpcbinding {
namespace {

constexpr std::uint32_t kServed = 0x20000042;
constexpr std::uint32_t kVersion = 7;

// A server with a program of its own and rpcbind, and a client over RDMA.
class RpcbindOverRdma : public testing::Test {
 protected:
  explicit RpcbindOverRdma(const char* url = "rdma://127.0.0.1:0")
      : server_(Server::listen(url).value()), rpcbind_(server_->address()) {
    EXPECT_TRUE(server_->add(kServed, kVersion, program_));
    rpcbind_.add(kServed, kVersion);
    EXPECT_TRUE(rpcbind_.add_to(*server_));
    endpoint_ = *from_socket_text(server_->address());
    thread_ = std::thread([this] { server_->run(); });
    client_.emplace(
        Client::connect(to_url(endpoint_.is_wildcard() ? "::1" : endpoint_.host(), endpoint_.port))
            .value());
  }
  ~RpcbindOverRdma() override {
    client_.reset();
    server_->stop();
    thread_.join();
    server_.reset();  // before its services
  }
  static rpcbind::rpcb question(std::uint32_t version, const std::string& netid,
                                const std::string& address = "") {
    return {kServed, version, netid, address, ""};
  }

  std::optional<Server> server_;
  FunctionService program_;
  RpcbindService rpcbind_;
  Endpoint endpoint_;
  std::thread thread_;
  std::optional<Client> client_;
};

TEST_F(RpcbindOverRdma, TellsWhereTheProgramsOfTheServerAre) {
  const std::string here = to_universal(endpoint_);
  rpcbind::RPCBVERS_Client version3(*client_);
  EXPECT_EQ(version3.RPCBPROC_GETADDR(question(kVersion, "rdma")).value(), here);
  rpcbind::RPCBVERS4_Client version4(*client_);
  EXPECT_EQ(version4.RPCB4PROC_GETADDR(question(kVersion, "rdma")).value(), here);
  EXPECT_EQ(version4.RPCB4PROC_GETADDR({rpcbind::RPCBPROG, 4, "rdma", "", ""}).value(), here);
  // The program is really there.
  auto client = Client::connect(to_url(endpoint_.host(), endpoint_.port)).value();
  auto call = client.prepare({kServed, kVersion, 0}).value();
  EXPECT_TRUE(client.call(std::move(call)));
}

TEST_F(RpcbindOverRdma, NetidIsThatOfTheQuestionUnlessItIsSaid) {
  rpcbind::RPCBVERS4_Client rpcbind(*client_);
  EXPECT_EQ(rpcbind.RPCB4PROC_GETADDR(question(kVersion, "")).value(), to_universal(endpoint_));
  for (const char* netid : {"rdma6", "tcp", "udp", "rdma "}) {
    EXPECT_EQ(rpcbind.RPCB4PROC_GETADDR(question(kVersion, netid)).value(), "") << netid;
  }
}

TEST_F(RpcbindOverRdma, AnotherVersionOfTheProgramIsReturnedUnlessItMustBeThisOne) {
  rpcbind::RPCBVERS4_Client rpcbind(*client_);
  EXPECT_NE(rpcbind.RPCB4PROC_GETADDR(question(kVersion + 1, "rdma")).value(), "");
  EXPECT_EQ(rpcbind.RPCB4PROC_GETVERSADDR(question(kVersion + 1, "rdma")).value(), "");
  EXPECT_NE(rpcbind.RPCB4PROC_GETVERSADDR(question(kVersion, "rdma")).value(), "");
  EXPECT_EQ(rpcbind.RPCB4PROC_GETADDR({kServed + 1, kVersion, "rdma", "", ""}).value(), "");
}

TEST_F(RpcbindOverRdma, ListsAll) {
  rpcbind::RPCBVERS_Client version3(*client_);
  const auto entries = version3.RPCBPROC_DUMP().value();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].rpcb_map.r_prog, kServed);
  EXPECT_EQ(entries[0].rpcb_map.r_vers, kVersion);
  EXPECT_EQ(entries[0].rpcb_map.r_netid, "rdma");
  EXPECT_EQ(entries[0].rpcb_map.r_addr, to_universal(endpoint_));
  rpcbind::RPCBVERS4_Client version4(*client_);
  EXPECT_EQ(version4.RPCB4PROC_DUMP().value(), entries);
}

TEST_F(RpcbindOverRdma, NobodyRegistersOrUnregistersFromAfar) {
  rpcbind::RPCBVERS_Client version3(*client_);
  rpcbind::RPCBVERS4_Client version4(*client_);
  const rpcbind::rpcb wanted{kServed, kVersion, "rdma", "192.0.2.7.78.81", "superuser"};
  EXPECT_FALSE(version3.RPCBPROC_UNSET(wanted).value());
  EXPECT_FALSE(version3.RPCBPROC_SET(wanted).value());
  EXPECT_FALSE(version4.RPCB4PROC_UNSET(wanted).value());
  EXPECT_FALSE(version4.RPCB4PROC_SET(wanted).value());
  EXPECT_EQ(version4.RPCB4PROC_GETADDR(wanted).value(), to_universal(endpoint_));
}

TEST_F(RpcbindOverRdma, DoesNotCallOthersForItsClients) {
  rpcbind::RPCBVERS4_Client rpcbind(*client_);
  const auto broadcast = rpcbind.RPCB4PROC_BCAST({kServed, kVersion, 0, {}});
  ASSERT_FALSE(broadcast);
  EXPECT_EQ(broadcast.error().code, Errc::kNotAvailable);
}

class RpcbindOnEveryAddress : public RpcbindOverRdma {
 protected:
  RpcbindOnEveryAddress() : RpcbindOverRdma("rdma://[::]:0") {}
};

TEST_F(RpcbindOnEveryAddress, TellsTheAddressByWhichTheClientKnowsTheHost) {
  rpcbind::RPCBVERS4_Client rpcbind(*client_);
  const std::string port =
      "." + std::to_string(endpoint_.port / 256) + "." + std::to_string(endpoint_.port % 256);
  const auto ask = [&](const char* netid, const char* address) {
    return rpcbind.RPCB4PROC_GETADDR(question(kVersion, netid, address)).value();
  };
  EXPECT_EQ(ask("rdma", "192.0.2.7.0.111"), "192.0.2.7" + port);
  EXPECT_EQ(ask("rdma6", "2001:db8::7.0.111"), "2001:db8::7" + port);
  EXPECT_EQ(ask("", ""), "::" + port);
  for (const char* nonsense : {"", "nonsense", "0.0.0.0.0.111", "::1.0.111", "192.0.2.7"}) {
    EXPECT_EQ(ask("rdma", nonsense), "0.0.0.0" + port) << nonsense;
  }
}

}  // namespace
}  // namespace rpcrdma::rpcbinding
