#include "rpc/serve/host_shares.h"

#include <gtest/gtest.h>

#include <string>

namespace rpcrdma::rpc {
namespace {

TEST(HostShares, HostWithMostLeavesOneToAHostWithFewer) {
  HostShares shares;
  EXPECT_FALSE(shares.host_above("192.0.2.9:1")) << "there are no connections";
  for (const char* peer : {"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1", "[::1]:5"}) {
    shares.add(peer);
  }
  EXPECT_EQ(shares.host_above("192.0.2.9:1"), "192.0.2.1");
  EXPECT_EQ(shares.host_above("192.0.2.2:9"), "192.0.2.1") << "both have two then";
  EXPECT_FALSE(shares.host_above("192.0.2.1:9"));
  shares.add("[::1]:6");
  EXPECT_EQ(shares.host_above("192.0.2.9:1"), "192.0.2.1");
  shares.add("[::1]:7");
  EXPECT_FALSE(shares.host_above("[::1]:8")) << "no host has so many more";
  shares.remove("[::1]:7");
  shares.remove("[::1]:6");
  shares.remove("[::1]:5");
  EXPECT_EQ(shares.host_above("[::1]:8"), "192.0.2.1");
  shares.remove("192.0.2.1:1");
  shares.remove("192.0.2.1:2");
  EXPECT_FALSE(shares.host_above("[::1]:8")) << "each host has one";
}

// A user can have any number of processes.
TEST(HostShares, ProcessesOfALocalUserShareOne) {
  HostShares shares;
  for (const char* process : {"1", "2", "3"}) {
    shares.add(std::string("local (user 1000, process ") + process + ")");
  }
  EXPECT_EQ(shares.host_above("local (user 0, process 4)"), "local (user 1000");
  EXPECT_FALSE(shares.host_above("local (user 1000, process 4)"));
}

TEST(SparePace, LetsOneConnectionASecondBeTaken) {
  SparePace pace;
  const Instant start{std::chrono::seconds(100)};
  EXPECT_TRUE(pace.may_take(start));
  EXPECT_FALSE(pace.may_take(start + std::chrono::milliseconds(999)));
  EXPECT_TRUE(pace.may_take(start + std::chrono::seconds(1)));
}

}  // namespace
}  // namespace rpcrdma::rpc
