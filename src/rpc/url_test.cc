// Reads what users type to name a server.
#include "rpc/url.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rpcrdma::rpc {
namespace {

// "HOST PORT" of a URL, or what is wrong with it.
std::string parsed(std::string_view url) {
  const auto result = url.starts_with("tcp:") ? parse_tcp_url(url) : parse_url(url);
  return result ? result->host + ' ' + std::to_string(result->port) : result.error().cause;
}

TEST(Url, NamesAHostAndAPort) {
  EXPECT_EQ(parsed("rdma://storage:2049"), "storage 2049");
  EXPECT_EQ(parsed("rdma://192.0.2.1:0"), "192.0.2.1 0");
  EXPECT_EQ(parsed("rdma://storage:65535/"), "storage 65535");
  EXPECT_EQ(parsed("rdma://[::1]:2049"), "::1 2049");
  EXPECT_EQ(parsed("tcp://[2001:db8::1]:111"), "2001:db8::1 111");
}

TEST(Url, MayHaveAZoneInItsAddress) {
  EXPECT_EQ(parsed("rdma://[fe80::1%eth0]:2049"), "fe80::1%eth0 2049");
  EXPECT_EQ(parsed("rdma://[fe80::1%25eth0]:2049"), "fe80::1%eth0 2049");
  EXPECT_EQ(parsed("tcp://[fe80::1%2]:111"), "fe80::1%2 111");
  EXPECT_EQ(parsed("tcp://[fe80::1%252]:111"), "fe80::1%2 111");
  EXPECT_EQ(parsed("tcp://[fe80::1%25]:111"), "fe80::1%25 111");
}

TEST(Url, HasADefaultPortWithRdma) {
  EXPECT_EQ(parsed("rdma://storage"), "storage 20049");
  EXPECT_EQ(parsed("rdma://[::1]"), "::1 20049");
  EXPECT_EQ(parsed("tcp://storage"), "the port is missing");
  EXPECT_EQ(parsed("tcp://[::1]"), "the port is missing");
}

TEST(Url, ListsServersOfWhichAClientTakesOneAfterTheOther) {
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(addresses_of("rdma://192.0.2.1,[::1]:5", false).value(),
            (Addresses{"192.0.2.1:20049", "[::1]:5"}));
  EXPECT_EQ(addresses_of("tcp://192.0.2.1:1,192.0.2.2:2/", false).value(),
            (Addresses{"192.0.2.1:1", "192.0.2.2:2"}));
  EXPECT_EQ(host_of_url("rdma://192.0.2.1:7,192.0.2.2"), "192.0.2.1");
  EXPECT_EQ(addresses_of("rdma://192.0.2.1,", false).error().cause, "the host is missing");
  EXPECT_EQ(addresses_of("tcp://192.0.2.1:1,192.0.2.2", false).error().cause,
            "the port is missing");
}

TEST(Url, LeavesServersOfAListOutWhoseNamesAreNotKnown) {
  EXPECT_EQ(addresses_of("rdma://no.such.host.invalid,192.0.2.1", false).value(),
            std::vector<std::string>{"192.0.2.1:20049"});
  EXPECT_EQ(addresses_of("rdma://no.such.host.invalid,neither.invalid", false).error().code,
            Errc::kUnknownHost);
}

TEST(Url, ServerListensAtOneAddress) {
  EXPECT_FALSE(addresses_of("rdma://192.0.2.1,192.0.2.2", true));
}

TEST(Url, SaysWhatIsWrongWithIt) {
  EXPECT_EQ(parsed("rdma://"), "the host is missing");
  EXPECT_EQ(parsed("rdma://:2049"), "the host is missing");
  EXPECT_EQ(parsed("rdma://[::1"), "the ']' behind the IPv6 address is missing");
  EXPECT_EQ(parsed("rdma://[::1]2049"), "only :PORT may follow the host");
  EXPECT_EQ(parsed("rdma://::1"), "an IPv6 address stands in brackets, as in rdma://[::1]:20049");
  EXPECT_EQ(parsed("rdma://storage/export"), "nothing may follow the port");
  for (const std::string port : {"65536", "-1", "20x", "x"}) {
    EXPECT_EQ(parsed("rdma://storage:" + port), "the port is not a number from 0 to 65535") << port;
  }
  EXPECT_EQ(parsed("nfs://storage"), "it starts with none of rdma://, tcp:// and unix://");
}

TEST(Url, NamesASocketByAnAbsolutePath) {
  const auto path = parse_unix_url("unix:///run/rpcbind.sock");
  ASSERT_TRUE(path);
  EXPECT_EQ(*path, "/run/rpcbind.sock");
  EXPECT_FALSE(parse_unix_url("unix://run/rpcbind.sock"));
  EXPECT_FALSE(parse_unix_url("unix:///run/"));
  EXPECT_FALSE(parse_unix_url("unix:///" + std::string(200, 'x')));
}

TEST(AddressesOf, LinkLocalOnesNeedTheirLink) {
  for (const char* const url : {"rdma://[fe80::1]:20049", "tcp://[fe80::1]:2049"}) {
    for (const bool to_listen : {false, true}) {
      const auto addresses = addresses_of(url, to_listen);
      ASSERT_FALSE(addresses) << url;
      EXPECT_EQ(addresses.error().code, Errc::kBadUrl);
      EXPECT_NE(addresses.error().cause.find("fe80::1%eth0"), std::string::npos);
    }
  }
  EXPECT_EQ(addresses_of("rdma://[fe80::1%25lo]:1", false).value().at(0), "[fe80::1%lo]:1");
}

}  // namespace
}  // namespace rpcrdma::rpc
