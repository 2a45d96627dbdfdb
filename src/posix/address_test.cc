#include "posix/address.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

namespace rpcrdma::posix {
namespace {

std::uint32_t scope_of(const Address& address) {
  sockaddr_in6 six{};
  std::memcpy(&six, &address.storage, sizeof(six));
  return six.sin6_scope_id;
}

TEST(AddressTest, KeepsTheZoneOfALinkLocalAddress) {
  const std::uint32_t loopback = if_nametoindex("lo");
  if (loopback == 0) GTEST_SKIP() << "the loopback interface has another name";
  for (const std::string& zone : {std::string("lo"), std::to_string(loopback)}) {
    const auto address = parse_address("[fe80::1%" + zone + "]:20049");
    ASSERT_TRUE(address) << zone;
    EXPECT_EQ(scope_of(*address), loopback) << zone;
    EXPECT_EQ(to_string(*address), "[fe80::1%lo]:20049");
  }
  const auto unknown = parse_address("[fe80::1%4000000000]:1");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(to_string(*unknown), "[fe80::1%4000000000]:1");
}

TEST(AddressTest, HasNoZoneThatIsNone) {
  for (const char* const text : {"[fe80::1%]:1", "[fe80::1%0]:1", "[fe80::1%no-such-interface]:1",
                                 "[%lo]:1", "127.0.0.1%lo:1"}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
  EXPECT_EQ(to_string(*parse_address("[::1]:2")), "[::1]:2");
}

}  // namespace
}  // namespace rpcrdma::posix
