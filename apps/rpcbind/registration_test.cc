#include "rpcbind/registration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "rpcbind/daemon.h"
#include "rpcbind/fake_daemon_for_test.h"

namespace rpcrdma::rpcbinding {
namespace {

constexpr Registration::Program kRegistered{0x20000042, 1};
const FakeDaemon::Key kKey{0x20000042, 1, "rdma"};

std::vector<Endpoint> at(std::uint16_t port) {
  return endpoints_of("127.0.0.1:" + std::to_string(port));
}

TEST(EndpointsOf, AreTheAddressOfTheServer) {
  ASSERT_EQ(endpoints_of("192.0.2.7:20049").size(), 1U);
  EXPECT_EQ(to_universal(endpoints_of("192.0.2.7:20049")[0]), "192.0.2.7.78.81");
  ASSERT_EQ(endpoints_of("[::1]:20049").size(), 1U);
  EXPECT_TRUE(endpoints_of("nonsense").empty());
}

TEST(EndpointsOf, EveryIpv6AddressTakesIpv4AsWell) {
  const auto both = endpoints_of("[::]:20049");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(to_universal(both[0]), "::.78.81");
  EXPECT_EQ(to_universal(both[1]), "0.0.0.0.78.81");
}

TEST(Registration, LastsAsLongAsItsObject) {
  for (const std::uint32_t version : {4U, 3U}) {
    FakeDaemon daemon(version);
    {
      auto registration =
          Registration::make(kRegistered, endpoints_of("[::]:20049"), daemon.where());
      ASSERT_TRUE(registration) << registration.error().message();
      const Registration moved(std::move(*registration));
      ASSERT_EQ(daemon.entries.size(), 2U);
      EXPECT_EQ(daemon.entries[kKey].r_addr, "0.0.0.0.78.81");
      EXPECT_EQ(daemon.entries[kKey].r_owner, owner_of_process());
    }
    EXPECT_TRUE(daemon.entries.empty());
  }
}

TEST(Registration, TakesTheUnixSocketOfTheDaemon) {
  const std::string path = testing::TempDir() + "rpcbind" + std::to_string(::getpid()) + ".sock";
  FakeDaemon daemon(rpcbind::RPCBVERS4, "unix://" + path);
  EXPECT_EQ(daemon.where(), path);
  auto registration = Registration::make(kRegistered, at(20049), path);
  ASSERT_TRUE(registration) << registration.error().message();
  EXPECT_EQ(daemon.entries[kKey].r_addr, "127.0.0.1.78.81");
  EXPECT_TRUE(registration->end());
  EXPECT_TRUE(daemon.entries.empty());
}

TEST(Registration, ReplacesWhatAServerLeftThatWasKilled) {
  FakeDaemon daemon;
  daemon.entries[kKey] = {kRegistered.program, kRegistered.version, "rdma", "127.0.0.1.1.1",
                          "superuser"};
  auto registration = Registration::make(kRegistered, at(20049), daemon.where());
  ASSERT_TRUE(registration) << registration.error().message();
  EXPECT_EQ(daemon.entries[kKey].r_addr, "127.0.0.1.78.81");
}

TEST(Registration, LeavesAnotherUsersEntryAndReportsIt) {
  FakeDaemon daemon;
  daemon.entries[kKey] = {kRegistered.program, kRegistered.version, "rdma", "127.0.0.1.1.1",
                          "1000"};
  daemon.of_others = {kKey};
  auto registration = Registration::make(kRegistered, at(20049), daemon.where());
  ASSERT_FALSE(registration);
  EXPECT_EQ(registration.error().code, Errc::kDenied);
  EXPECT_NE(registration.error().cause.find("another user"), std::string::npos);
  EXPECT_EQ(daemon.entries.size(), 1U);
}

TEST(Registration, OverTcpLeavesAServerThatListensAndReplacesOneThatIsGone) {
  constexpr Registration::Program kOverTcp{kRegistered.program, kRegistered.version, Over::kTcp};
  FakeDaemon daemon;
  auto listening = Server::listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(listening) << listening.error().message();
  const auto other = from_socket_text(listening->address());
  ASSERT_TRUE(other);
  const FakeDaemon::Key key{kRegistered.program, kRegistered.version, "tcp"};
  const rpcbind::rpcb entry{kRegistered.program, kRegistered.version, "tcp", to_universal(*other),
                            owner_of_process()};
  daemon.entries[key] = entry;
  const auto refused = Registration::make(kOverTcp, at(2049), daemon.where());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kDenied);
  EXPECT_NE(refused.error().cause.find("listens there"), std::string::npos);
  EXPECT_EQ(daemon.entries[key].r_addr, entry.r_addr);

  { const Server gone = std::move(*listening); }
  const auto registration = Registration::make(kOverTcp, at(2049), daemon.where());
  ASSERT_TRUE(registration) << registration.error().message();
  EXPECT_EQ(daemon.entries[key].r_addr, "127.0.0.1.8.1");
}

TEST(Registration, OverTcpDoesNotTakeItsOwnServerForAnother) {
  constexpr Registration::Program kOverTcp{kRegistered.program, kRegistered.version, Over::kTcp};
  FakeDaemon daemon;
  const auto listening = Server::listen("tcp://0.0.0.0:0");
  ASSERT_TRUE(listening) << listening.error().message();
  const auto own = endpoints_of(listening->address());
  Endpoint before = own[0];
  before.address = {127, 0, 0, 1};
  // A server that listened on loopback alone and was killed has left this entry.
  daemon.entries[{kRegistered.program, kRegistered.version, "tcp"}] = {
      kRegistered.program, kRegistered.version, "tcp", to_universal(before), owner_of_process()};
  const auto registration = Registration::make(kOverTcp, own, daemon.where());
  ASSERT_TRUE(registration) << registration.error().message();
}

TEST(Registration, EndLeavesWhatAnotherServerHasRegisteredMeanwhile) {
  FakeDaemon daemon;
  auto first = Registration::make(kRegistered, at(20049), daemon.where());
  auto second = Registration::make(kRegistered, at(20050), daemon.where());
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->end());
  EXPECT_EQ(daemon.entries[kKey].r_addr, "127.0.0.1.78.82");
  EXPECT_TRUE(second->end());
  EXPECT_TRUE(daemon.entries.empty());
}

TEST(Registration, YieldsWhatTheNextOneOfItsProgramHasAsWell) {
  FakeDaemon daemon;
  auto first = Registration::make(kRegistered, endpoints_of("[::]:20049"), daemon.where());
  auto next = Registration::make(kRegistered, endpoints_of("0.0.0.0:20049"), daemon.where());
  ASSERT_TRUE(first && next);
  first->yield_to(*next);
  EXPECT_TRUE(first->end());
  ASSERT_EQ(daemon.entries.size(), 1U) << "the one of IPv6 was the first's alone";
  EXPECT_EQ(daemon.entries[kKey].r_addr, "0.0.0.0.78.81");
}

TEST(Registration, ReportsADaemonThatIsGoneButNotOneThatForgotIt) {
  auto daemon = std::make_unique<FakeDaemon>();
  auto forgotten = Registration::make(kRegistered, at(20049), daemon->where());
  ASSERT_TRUE(forgotten);
  daemon->entries.clear();
  EXPECT_TRUE(forgotten->end());
  auto kept = Registration::make(kRegistered, at(20049), daemon->where());
  ASSERT_TRUE(kept);
  daemon.reset();
  const auto ended = kept->end();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kUnreachable);
  EXPECT_TRUE(kept->end()) << "there is nothing left to do";
}

TEST(Registration, RefusesAnAddressWithoutUniversalForm) {
  FakeDaemon daemon;
  const auto registration =
      Registration::make(kRegistered, endpoints_of("[fe80::1%eth0]:20049"), daemon.where());
  ASSERT_FALSE(registration);
  EXPECT_EQ(registration.error().code, Errc::kUnsupported);
}

TEST(Registration, NamesOfDaemonsAreChecked) {
  for (const char* where : {"nonsense", "localhost:111", "127.0.0.1", ":111"}) {
    const auto registration = Registration::make(kRegistered, at(1), where);
    ASSERT_FALSE(registration);
    EXPECT_EQ(registration.error().code, Errc::kBadUrl) << where;
  }
  const auto missing = Registration::make(kRegistered, at(1), "/no/such.sock");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kUnreachable);
  EXPECT_EQ(missing.error().peer, "rpcbind at /no/such.sock");
  EXPECT_NE(missing.error().cause.find("No such file"), std::string::npos);
  const std::string long_path = "/" + std::string(200, 'x');
  const auto too_long = Registration::make(kRegistered, at(1), long_path);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, Errc::kBadUrl);
  EXPECT_NE(too_long.error().cause.find("at most 107"), std::string::npos);
}

}  // namespace
}  // namespace rpcrdma::rpcbinding
