#include "rpcbind/universal_address.h"

#include <gtest/gtest.h>

namespace rpcrdma::rpcbinding {
namespace {

using std::string_view_literals::operator""sv;

Endpoint four(std::array<std::uint8_t, 4> bytes, std::uint16_t port) {
  return {false, {bytes[0], bytes[1], bytes[2], bytes[3]}, port};
}

TEST(UniversalAddress, PortIsTwoOctetsBehindTheAddress) {
  EXPECT_EQ(to_universal(four({192, 0, 2, 7}, 20049)), "192.0.2.7.78.81");
  EXPECT_EQ(from_universal("rdma", "192.0.2.7.78.81"), four({192, 0, 2, 7}, 20049));
  EXPECT_EQ(from_universal("rdma", "0.0.0.0.0.0"), four({0, 0, 0, 0}, 0));
  EXPECT_EQ(from_universal("rdma", "255.255.255.255.255.255"), four({255, 255, 255, 255}, 65535));
}

TEST(UniversalAddress, Ipv6IsItsTextAndThePort) {
  const auto loopback = from_universal("rdma6", "::1.78.81");
  ASSERT_TRUE(loopback);
  EXPECT_EQ(loopback->host(), "::1");
  EXPECT_EQ(loopback->port, 20049);
  EXPECT_EQ(loopback->netid(), "rdma6");
  EXPECT_EQ(to_universal(*loopback), "::1.78.81");
  const auto whole = from_universal("rdma6", "2001:db8:0:0:0:0:0:7.0.111");
  ASSERT_TRUE(whole);
  EXPECT_EQ(to_universal(*whole), "2001:db8::7.0.111");
  // With the last 32 bits as of IPv4, RFC 5665 §5.2.3.4.
  const auto mixed = from_universal("rdma6", "::ffff:192.0.2.7.0.111");
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->host(), "::ffff:192.0.2.7");
  EXPECT_EQ(mixed->port, 111);
}

TEST(UniversalAddress, EveryPortComesBack) {
  for (unsigned port = 0; port <= 65535; port += 13) {
    const Endpoint endpoint = four({10, 1, 2, 3}, static_cast<std::uint16_t>(port));
    EXPECT_EQ(from_universal("rdma", to_universal(endpoint)), endpoint);
  }
}

TEST(UniversalAddress, EverythingElseIsRefused) {
  for (const std::string_view text :
       {""sv,
        "."sv,
        "..."sv,
        "192.0.2.7"sv,
        "192.0.2.7.78"sv,
        "192.0.2.7.78.81.1"sv,
        "192.0.2.7.78.256"sv,
        "192.0.2.7.256.81"sv,
        "192.0.2.256.78.81"sv,
        "192.0.2.7.078.81"sv,
        "192.0.2.07.78.81"sv,
        "192.0.2.7.-1.81"sv,
        "192.0.2.7.+1.81"sv,
        " 192.0.2.7.78.81"sv,
        "192.0.2.7.78.81 "sv,
        "192.0.2.7.78.81\n"sv,
        "192.0.2.7.78.81\0"sv,
        "192.0.2.7\0.78.81"sv,
        "192.0.2.7..81"sv,
        "192.0.2.7.78."sv,
        "0x7f.0.0.1.78.81"sv,
        "::1.78.81"sv,
        "host.example.78.81"sv,
        "192.0.2.7:20049"sv,
        "1111111111111111111111111111111111111111111111111111111111111111.1.1"sv}) {
    EXPECT_FALSE(from_universal("rdma", text)) << text;
  }
  for (const std::string_view text :
       {"192.0.2.7.78.81"sv, "::1"sv, "::1.78"sv, "::1.78.256"sv, "[::1].78.81"sv, ":::1.78.81"sv,
        "fe80::1%eth0.78.81"sv, "1:2:3:4:5:6:7.78.81"sv, "1:2:3:4:5:6:7:8:9.78.81"sv,
        "12345::.78.81"sv, "::1\0.78.81"sv, "::g.78.81"sv}) {
    EXPECT_FALSE(from_universal("rdma6", text)) << text;
  }
  EXPECT_FALSE(from_universal("udp", "192.0.2.7.78.81"));
  EXPECT_FALSE(from_universal("", "192.0.2.7.78.81"));
}

TEST(UniversalAddress, AddressOfAServerIsRead) {
  EXPECT_EQ(from_socket_text("127.0.0.1:20049"), four({127, 0, 0, 1}, 20049));
  const auto six = from_socket_text("[2001:db8::7]:1");
  ASSERT_TRUE(six);
  EXPECT_EQ(to_universal(*six), "2001:db8::7.0.1");
  for (const std::string_view text : {""sv, ":"sv, "127.0.0.1"sv, "127.0.0.1:"sv,
                                      "127.0.0.1:65536"sv, "[]:1"sv, "[::1]"sv, "::1:5"sv}) {
    EXPECT_FALSE(from_socket_text(text)) << text;
  }
}

TEST(UniversalAddress, RecognisesWildcardsAndLoopbacks) {
  EXPECT_TRUE(from_universal("rdma", "0.0.0.0.1.1")->is_wildcard());
  EXPECT_TRUE(from_universal("rdma6", "::.1.1")->is_wildcard());
  EXPECT_FALSE(from_universal("rdma6", "::1.1.1")->is_wildcard());
  EXPECT_TRUE(from_universal("rdma6", "::1.1.1")->is_loopback());
  EXPECT_TRUE(from_universal("rdma", "127.3.0.1.1.1")->is_loopback());
  EXPECT_TRUE(from_universal("rdma6", "::ffff:127.0.0.1.1.1")->is_loopback());
  EXPECT_FALSE(from_universal("rdma", "128.0.0.1.1.1")->is_loopback());
  EXPECT_FALSE(from_universal("rdma6", "::ffff:10.0.0.1.1.1")->is_loopback());
}

TEST(UniversalAddress, UrlHasBracketsAroundIpv6) {
  EXPECT_EQ(to_url("::1", 20049), "rdma://[::1]:20049");
  EXPECT_EQ(to_url("[::1]", 1), "rdma://[::1]:1");
  EXPECT_EQ(to_url("nfs.example", 20049), "rdma://nfs.example:20049");
}

}  // namespace
}  // namespace rpcrdma::rpcbinding
