#include "explain/cm_requests.h"

#include <gtest/gtest.h>

namespace rpcrdma::explain {
namespace {

Endpoint host(std::size_t number) {
  Endpoint made;
  made.address[2] = static_cast<std::uint8_t>(number >> 8U);
  made.address[3] = static_cast<std::uint8_t>(number);
  return made;
}

CmRequest request_of(const Endpoint& from, std::uint32_t id, std::uint64_t packet = 1) {
  CmRequest made;
  made.from = from;
  made.message.local_id = id;
  made.where.packet = packet;
  return made;
}

TEST(CmRequests, AreTakenOnceBySenderAndId) {
  CmRequests requests;
  requests.add(request_of(host(1), 7));
  EXPECT_FALSE(requests.take(host(2), 7));
  EXPECT_FALSE(requests.take(host(1), 8));
  EXPECT_TRUE(requests.take(host(1), 7));
  EXPECT_FALSE(requests.take(host(1), 7));
}

// Neither the least nor the greatest address is the oldest.
TEST(CmRequests, LeaveTheOldestWhereThereAreTooMany) {
  CmRequests requests;
  requests.add(request_of(host(5000), 1));
  for (std::size_t i = 1; i < CmRequests::kMost; ++i) {
    requests.add(request_of(host(i % 2 == 0 ? 4000 - i : 6000 + i), 1));
  }
  requests.add(request_of(host(1), 1));
  EXPECT_FALSE(requests.take(host(5000), 1));
  EXPECT_TRUE(requests.take(host(1), 1));
  for (std::size_t i = 1; i < CmRequests::kMost; ++i) {
    EXPECT_TRUE(requests.take(host(i % 2 == 0 ? 4000 - i : 6000 + i), 1)) << i;
  }
}

TEST(CmRequests, TakeNoRoomOfOthersWhenTheyComeTwice) {
  CmRequests requests;
  for (std::uint32_t i = 0; i < CmRequests::kMost; ++i) requests.add(request_of(host(1), i));
  requests.add(request_of(host(1), 5, 2));
  const auto again = requests.take(host(1), 5);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->where.packet, 2U);
  EXPECT_TRUE(requests.take(host(1), 0));
  EXPECT_TRUE(requests.take(host(1), 1));
}

TEST(CmRequests, AreAsOldAsTheirLastCopy) {
  CmRequests requests;
  for (std::uint32_t i = 0; i < CmRequests::kMost; ++i) requests.add(request_of(host(1), i));
  requests.add(request_of(host(1), 0));
  requests.add(request_of(host(1), CmRequests::kMost));
  EXPECT_TRUE(requests.take(host(1), 0));
  EXPECT_FALSE(requests.take(host(1), 1));
}

}  // namespace
}  // namespace rpcrdma::explain
