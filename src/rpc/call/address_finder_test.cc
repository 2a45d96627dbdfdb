#include "rpc/call/address_finder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "rpc/url.h"

namespace rpcrdma::rpc {
namespace {

TEST(AddressFinder, FindsWhatTheResolverSaysEachTime) {
  const std::unique_ptr<AddressFinder> finder = make_address_finder("tcp://localhost:20050");
  ASSERT_NE(finder, nullptr);
  EXPECT_TRUE(finder->take().empty()) << "nobody has asked";
  for (int i = 0; i < 2; ++i) {
    finder->begin();
    finder->begin();  // the same one
    std::vector<std::string> found;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (found.empty() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
      found = finder->take();
    }
    EXPECT_EQ(found, addresses_of("tcp://localhost:20050", false).value());
    EXPECT_TRUE(finder->take().empty()) << "it was taken";
  }
}

TEST(AddressFinder, MayGoWhileItLooks) {
  make_address_finder("rdma://localhost")->begin();
}

TEST(AddressFinder, IsForNamesAlone) {
  for (const char* const url : {"rdma://127.0.0.1", "rdma://127.0.0.1:1,[::1]:2",
                                "tcp://[fe80::1%25lo]:1", "unix:///run/x", "tcp://127.0.0.1:1"}) {
    EXPECT_EQ(make_address_finder(url), nullptr) << url;
  }
  for (const char* const url : {"rdma://server", "tcp://server:1", "rdma://127.0.0.1,server:2"}) {
    EXPECT_NE(make_address_finder(url), nullptr) << url;
  }
}

}  // namespace
}  // namespace rpcrdma::rpc
