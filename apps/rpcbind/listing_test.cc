#include "rpcbind/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "rpcbind/fake_daemon_for_test.h"
#include "rpcbind/service.h"

namespace rpcrdma::rpcbinding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kProgram = 0x20000042;

class ListingTest : public testing::Test {
 protected:
  Expected<Listing, Error> list(const ListingOptions& options = {}) {
    ClientOptions client_options;
    client_options.tcp.record_size_max = options.reply_size_max;
    auto client = Client::connect("tcp://" + daemon_->where(), client_options);
    if (!client) return Unexpected<Error>(std::move(client.error()));
    return list_programs(*client, options);
  }
  void add(std::uint32_t program, const std::string& netid, const std::string& address,
           const std::string& owner = "superuser") {
    daemon_->entries[{program, 1, netid}] = {program, 1, netid, address, owner};
  }
  // Returns the programs as lines.
  static std::vector<std::string> lines(const Listing& listing) {
    std::vector<std::string> lines;
    for (const ListedProgram& each : listing.programs) {
      lines.push_back(std::to_string(each.program) + " " + std::to_string(each.version) + " " +
                      each.netid + " " + each.address + " " + each.owner);
    }
    return lines;
  }

  std::optional<FakeDaemon> daemon_{std::in_place};
};

TEST_F(ListingTest, HasEachRegistrationInTheNewestVersionThatAnswers) {
  for (const std::uint32_t version : {4U, 3U}) {
    daemon_.emplace(version);
    add(100003, "tcp", "0.0.0.0.8.1");
    add(kProgram, "rdma6", "::1.78.81", "1000");
    add(kProgram, "local", "/run/socket", "");
    const auto listing = list();
    ASSERT_TRUE(listing) << listing.error().message();
    EXPECT_EQ(listing->rpcbind_version, version);
    EXPECT_FALSE(listing->is_cut);
    EXPECT_THAT(lines(*listing),
                ElementsAre("100003 1 tcp 0.0.0.0.8.1 superuser", "536870978 1 local /run/socket ",
                            "536870978 1 rdma6 ::1.78.81 1000"));
  }
}

TEST_F(ListingTest, PortMapperHasPortsAndNoOwners) {
  daemon_.emplace(2);
  add(100003, "tcp", "0.0.0.0.8.1");
  add(kProgram, "udp", "0.0.0.0.78.81");
  const auto listing = list();
  ASSERT_TRUE(listing) << listing.error().message();
  EXPECT_EQ(listing->rpcbind_version, 2U);
  EXPECT_THAT(lines(*listing),
              ElementsAre("100003 1 tcp 0.0.0.0.8.1 ", "536870978 1 udp 0.0.0.0.78.81 "));
  add(kProgram, "udp", "a port above 65535");
  const auto wrong = list();
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Errc::kBadReply) << wrong.error().message();
}

TEST_F(ListingTest, LongListIsCutAndSaysSo) {
  for (std::uint32_t i = 0; i < 100; ++i) add(i, "tcp", "127.0.0.1.0.1");
  const auto whole = list({.entries_max = 100});
  ASSERT_TRUE(whole);
  EXPECT_EQ(std::pair(whole->programs.size(), whole->is_cut), std::pair(std::size_t{100}, false));
  const auto cut = list({.entries_max = 99});
  ASSERT_TRUE(cut);
  EXPECT_EQ(std::pair(cut->programs.size(), cut->is_cut), std::pair(std::size_t{99}, true));
}

TEST_F(ListingTest, NonsenseIsABadReply) {
  daemon_->nonsense = true;
  EXPECT_EQ(list().error().code, Errc::kBadReply);
  daemon_->nonsense = false;
  add(kProgram, "tcp", "127.0.0.1.0.1", std::string(1025, 'x'));
  EXPECT_EQ(list().error().code, Errc::kBadReply);
  add(kProgram, "tcp", "127.0.0.1.0.1", std::string(1024, 'x'));
  EXPECT_TRUE(list());
  add(kProgram, "tcp", "127.0.0.1.0.1", std::string(1U << 20U, 'x'));
  EXPECT_FALSE(list());
}

TEST(ListingOfAServer, ComesOverRdmaAndTcp) {
  auto server = Server::listen("rdma://127.0.0.1:0").value();
  RpcbindService service(server.address());
  service.add(kProgram, 7);
  ASSERT_TRUE(service.add_to(server));
  const std::string plain = server.add_listener("tcp://127.0.0.1:0").value();
  const std::string rdma(server.address());
  std::thread thread([&] { server.run(); });
  for (const std::string& url : {"rdma://" + rdma, "tcp://" + plain}) {
    auto client = Client::connect(url);
    EXPECT_TRUE(client);
    if (!client) continue;
    const auto listing = list_programs(*client);
    EXPECT_TRUE(listing) << listing.error().message();
    if (!listing || listing->programs.size() != 3) continue;
    EXPECT_EQ(listing->programs[0].program, kProgram);
    EXPECT_EQ(endpoint_text(listing->programs[0]), rdma);
    EXPECT_EQ(program_name(listing->programs[1].program), "portmapper");
  }
  server.stop();
  thread.join();
}

TEST(ListedProgramTest, HasAnAddressThatCanBeTyped) {
  const auto text = [](const char* netid, const char* address) {
    ListedProgram listed;
    listed.netid = netid;
    listed.address = address;
    return endpoint_text(listed);
  };
  EXPECT_EQ(text("tcp", "192.0.2.1.8.1"), "192.0.2.1:2049");
  EXPECT_EQ(text("udp", "192.0.2.1.0.111"), "192.0.2.1:111");
  EXPECT_EQ(text("rdma6", "2001:db8::1.78.81"), "[2001:db8::1]:20049");
  EXPECT_EQ(text("udp6", "::.0.111"), "[::]:111");
  EXPECT_EQ(text("local", "/run/rpcbind.sock"), "");
  EXPECT_EQ(text("tcp", "nonsense"), "");
  EXPECT_EQ(program_name(100003), "nfs");
  EXPECT_EQ(program_name(0x20020049), "blob");
  EXPECT_EQ(program_name(0xffffffff), "");
}

}  // namespace
}  // namespace rpcrdma::rpcbinding
