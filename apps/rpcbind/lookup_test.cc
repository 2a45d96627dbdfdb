#include "rpcbind/lookup.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "rpcbind/fake_daemon_for_test.h"

namespace rpcrdma::rpcbinding {
namespace {

constexpr std::uint32_t kProgram = 0x20000042;

class Lookup : public testing::Test {
 protected:
  Expected<std::string, Error> look_up(std::string_view host = "127.0.0.1") {
    return lookup(host, kProgram, 1, {.port = daemon_->port(), .daemon = options_});
  }
  void add(const std::string& netid, const std::string& address) {
    daemon_->entries[{kProgram, 1, netid}] = {kProgram, 1, netid, address, "superuser"};
  }
  // Why there is no URL when this is the address.
  Error why(const std::string& address) {
    add("rdma", address);
    const auto url = look_up();
    EXPECT_FALSE(url) << *url;
    return url ? Error{} : url.error();
  }

  void use_version(std::uint32_t version_max) { daemon_.emplace(version_max); }

  DaemonOptions options_;
  std::optional<FakeDaemon> daemon_{std::in_place};
};

TEST_F(Lookup, GivesTheAddressThatTheProgramRegistered) {
  add("rdma", "192.0.2.7.78.81");
  const auto url = look_up();
  ASSERT_TRUE(url) << url.error().message();
  EXPECT_EQ(*url, "rdma://192.0.2.7:20049");
}

TEST_F(Lookup, WildcardIsTheHostThatWasAsked) {
  add("rdma", "0.0.0.0.78.82");
  EXPECT_EQ(look_up().value(), "rdma://127.0.0.1:20050");
  // As it was written; a name would need a resolver that knows it.
  EXPECT_EQ(look_up("127.1").value(), "rdma://127.1:20050");
}

TEST_F(Lookup, TakesTheOtherFamilyWhenThereIsOnlyThat) {
  add("rdma6", "2001:db8::7.78.81");
  EXPECT_EQ(look_up().value(), "rdma://[2001:db8::7]:20049");
  add("rdma", "192.0.2.7.78.81");
  EXPECT_EQ(look_up().value(), "rdma://192.0.2.7:20049");
  add("rdma", "nonsense");
  EXPECT_EQ(look_up().value(), "rdma://[2001:db8::7]:20049");
}

TEST_F(Lookup, AddressOfAnotherTransportProgramOrVersionIsNotTaken) {
  add("tcp", "192.0.2.7.8.1");
  daemon_->entries[{kProgram, 2, "rdma"}] = {kProgram, 2, "rdma", "192.0.2.7.78.81", ""};
  daemon_->entries[{kProgram + 1, 1, "rdma"}] = {kProgram + 1, 1, "rdma", "192.0.2.7.78.81", ""};
  EXPECT_EQ(look_up().error().code, Errc::kNotAvailable);
}

TEST_F(Lookup, TakesAnotherVersionOnRequestWhereThereIsNotThatOne) {
  daemon_->entries[{kProgram, 2, "rdma"}] = {kProgram, 2, "rdma", "192.0.2.7.78.82", ""};
  const auto look_up_any = [this] {
    return lookup("127.0.0.1", kProgram, 1,
                  {.port = daemon_->port(), .takes_other_versions = true, .daemon = options_});
  };
  EXPECT_EQ(look_up_any().value(), "rdma://192.0.2.7:20050");
  add("rdma", "192.0.2.7.78.81");
  EXPECT_EQ(look_up_any().value(), "rdma://192.0.2.7:20049");
}

TEST_F(Lookup, LoopbackOfThisMachineIsFine) {
  add("rdma", "127.0.0.1.78.81");
  EXPECT_EQ(look_up().value(), "rdma://127.0.0.1:20049");
}

TEST_F(Lookup, FallsBackToVersion3) {
  use_version(3);
  add("rdma", "192.0.2.7.78.81");
  EXPECT_EQ(look_up().value(), "rdma://192.0.2.7:20049");
}

TEST_F(Lookup, PortMapperKnowsNothingOfRdma) {
  use_version(2);
  const auto url = look_up();
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().code, Errc::kNotAvailable);
  EXPECT_NE(url.error().cause.find("port mapper"), std::string::npos) << url.error().message();
}

TEST_F(Lookup, ReportsAProgramThatIsNotRegistered) {
  const auto url = look_up();
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().code, Errc::kNotAvailable);
  EXPECT_NE(url.error().cause.find("registered"), std::string::npos);
  EXPECT_NE(url.error().operation.find(std::to_string(kProgram)), std::string::npos);
}

TEST_F(Lookup, ReportsNonsense) {
  for (const char* answer : {"nonsense", "192.0.2.7", "192.0.2.7.78.81.1", "::1.78.81",
                             "192.0.2.7.0.0", "192.0.2.7.78.81 ", "\x1b[2J.1.1"}) {
    const Error error = why(answer);
    EXPECT_EQ(error.code, Errc::kBadReply) << answer;
    EXPECT_EQ(error.message().find('\x1b'), std::string::npos);
  }
  EXPECT_EQ(why("").code, Errc::kBadReply);
  const Error error = why(std::string(100'000, '1'));
  EXPECT_EQ(error.code, Errc::kBadReply);
  EXPECT_LT(error.message().size(), 1000U);
  EXPECT_EQ(why(std::string(2'000'000, '1')).code, Errc::kBadReply);
  daemon_->nonsense = true;
  EXPECT_EQ(why("").code, Errc::kBadReply);
}

TEST_F(Lookup, DaemonThatDoesNotAnswerIsGivenUp) {
  options_.timeout = std::chrono::milliseconds(50);
  daemon_->silent = true;
  const auto url = look_up();
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().code, Errc::kTimedOut) << url.error().message();
  EXPECT_EQ(url.error().peer, "rpcbind at 127.0.0.1:" + std::to_string(daemon_->port()));
}

TEST(LookupWithoutDaemon, IsUnreachable) {
  std::uint16_t port = 0;
  {
    const FakeDaemon daemon;
    port = daemon.port();
  }
  const auto url = lookup("127.0.0.1", kProgram, 1, {.port = port, .daemon = {}});
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().code, Errc::kUnreachable);
  EXPECT_NE(url.error().cause.find("is rpcbind running there"), std::string::npos);
  EXPECT_EQ(lookup("no.such.host.invalid", kProgram, 1).error().code, Errc::kUnknownHost);
}

}  // namespace
}  // namespace rpcrdma::rpcbinding
