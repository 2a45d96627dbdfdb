// Tests which memory a peer may touch, and how it fails when it tries more.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::Completion;
using rdma::Status;
using work::Expose;
using work::Read;
using work::Receive;
using work::Remote;
using work::RemoteAccess;
using work::Revoke;
using work::Send;
using work::Slice;
using work::Write;

constexpr std::uint32_t kSize = 64;

class Exposure : public ProviderTest {
 protected:
  void SetUp() override {
    ProviderTest::SetUp();
    connect(client, server);
    server.fill(0, kGuarded, 1);
    secret = copy_of(server.memory(0, kGuarded));
  }
  // The client's Write kills the connection and touches nothing of the server's memory.
  void expect_write_refused(const Remote& to) {
    const auto expected = copy_of(server.memory(0, kGuarded));
    const std::vector<Slice> from{client.slice(0, to.size)};
    client.fill(0, to.size, 99);
    ASSERT_TRUE(client.post(1, Write{from, to}, false).has_value());
    expect_disconnected(client, server);
    EXPECT_EQ(copy_of(server.memory(0, kGuarded)), expected);
    if (fabric->tells_mistakes()) {
      EXPECT_EQ(server.queue_pair().cause().code, rdma::Errc::kProtocol);
    }
  }
  // The client's Read fails, kills the connection and brings nothing.
  void expect_read_refused(const Remote& from) {
    ASSERT_TRUE(client.post(1, Read{client.slice(0, from.size), from}, false).has_value());
    const Completion failed = next(client);
    EXPECT_EQ(failed.id, 1U);
    EXPECT_TRUE(failed.status == Status::kRemoteAccess || failed.status == Status::kFlushed);
    expect_disconnected(client, server);
    const auto brought = client.memory(0, kSize);
    EXPECT_FALSE(std::ranges::equal(brought, std::span(secret).first(kSize)));
  }

  // The server's memory. A peer that did it nevertheless would end the connection, or with siw be
  // let.
  bool can_be_invalidated() {
    return server.queue_pair().capabilities().reports_invalidated_handle;
  }

  static constexpr std::size_t kGuarded = 4096;
  std::vector<std::byte> secret;  // what the server has in its memory at first
};
INSTANTIATE_TEST_SUITE_P(Provider, Exposure, testing::ValuesIn(fabrics()), fabric_name);

TEST_P(Exposure, WriteToMemoryThatIsExposedForReadingIsRefused) {
  const Remote source = expose(server, 0, kSize, RemoteAccess::kRead);
  expect_write_refused(source);
}

TEST_P(Exposure, ReadFromMemoryThatIsExposedForWritingIsRefused) {
  if (!fabric->knows_who_may_read()) {
    GTEST_SKIP() << "siw lets a peer read whatever of the connection's memory it has a tag of";
  }
  const Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  expect_read_refused(room);
}

TEST_P(Exposure, WriteOfOneByteBeyondTheEndIsRefused) {
  Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  room.address += kSize;
  room.size = 1;
  expect_write_refused(room);
}

// A long one comes in pieces, and only the last of them goes beyond what is exposed.
TEST_P(Exposure, LongWriteThatEndsBeyondTheEndTouchesNothingBehindIt) {
  constexpr std::uint32_t kLong = 100'000;
  server.fill(0, kLong + kGuarded, 1);
  Remote room = expose(server, 0, kLong, RemoteAccess::kWrite);
  const auto behind = copy_of(server.memory(kLong, kGuarded));
  room.size = kLong + 1;
  client.fill(0, room.size, 99);
  const std::vector<Slice> from{client.slice(0, room.size)};
  ASSERT_TRUE(client.post(1, Write{from, room}, false).has_value());
  expect_disconnected(client, server);
  EXPECT_EQ(copy_of(server.memory(kLong, kGuarded)), behind);
  if (fabric->tells_mistakes()) {
    EXPECT_EQ(server.queue_pair().cause().code, rdma::Errc::kProtocol);
  }
}

TEST_P(Exposure, WriteOfOneByteBeforeTheStartIsRefused) {
  Remote room = expose(server, 1024, kSize, RemoteAccess::kWrite);
  room.address -= 1;
  room.size = 1;
  expect_write_refused(room);
}

TEST_P(Exposure, WriteThatWrapsAroundTheAddressSpaceIsRefused) {
  Remote room = expose(server, 1024, kSize, RemoteAccess::kWrite);
  room.address = std::numeric_limits<std::uint64_t>::max() - 7;
  expect_write_refused(room);
}

TEST_P(Exposure, ReadOfOneByteBeyondTheEndIsRefused) {
  Remote source = expose(server, 0, kSize, RemoteAccess::kRead);
  source.address += 1;
  expect_read_refused(source);
}

TEST_P(Exposure, ReadThatWrapsAroundTheAddressSpaceIsRefused) {
  Remote source = expose(server, 0, kSize, RemoteAccess::kRead);
  source.address = std::numeric_limits<std::uint64_t>::max() - 7;
  expect_read_refused(source);
}

TEST_P(Exposure, ReadFarLargerThanTheExposureIsRefused) {
  Remote source = expose(server, 0, kSize, RemoteAccess::kRead);
  source.size = 1'000'000;
  expect_read_refused(source);
}

TEST_P(Exposure, WriteToARevokedTagIsRefused) {
  const Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  revoke(server, room.tag);
  expect_write_refused(room);
}

TEST_P(Exposure, ReadFromARevokedTagIsRefused) {
  const Remote source = expose(server, 0, kSize, RemoteAccess::kRead);
  revoke(server, source.tag);
  expect_read_refused(source);
}

TEST_P(Exposure, WriteToATagThatNeverWasIsRefused) {
  Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  room.tag = SteeringTag{static_cast<std::uint32_t>(room.tag) ^ 1U};
  expect_write_refused(room);
}

TEST_P(Exposure, TagOfAnotherConnectionIsRefused) {
  End client2;
  End server2;
  connect(client2, server2);
  const Remote room = expose(server2, 0, kSize, RemoteAccess::kWrite);
  (void)expose(server, 0, kSize, RemoteAccess::kWrite);  // as much as the other has
  barrier(server2, client2);
  const auto expected = copy_of(server2.memory(0, kSize));
  const auto own = copy_of(server.memory(0, kSize));
  expect_write_refused(room);
  EXPECT_EQ(copy_of(server2.memory(0, kSize)), expected);
  EXPECT_EQ(copy_of(server.memory(0, kSize)), own);
  const Slice from = client2.slice(0, kSize);
  ASSERT_TRUE(client2.post(1, Write{{&from, 1}, room}).has_value());
  EXPECT_EQ(next(client2).status, Status::kOk) << "where it belongs it works";
}

TEST_P(Exposure, RevokingOneTagLeavesTheOthersAlive) {
  const Remote one = expose(server, 0, kSize, RemoteAccess::kWrite);
  const Remote two = expose(server, 0, kSize, RemoteAccess::kWrite);
  revoke(server, one.tag);
  client.fill(0, kSize, 7);
  const Slice from = client.slice(0, kSize);
  ASSERT_TRUE(client.post(1, Write{{&from, 1}, two}, false).has_value());
  barrier(client, server);
  EXPECT_EQ(copy_of(server.memory(0, kSize)), copy_of(client.memory(0, kSize)));
}

TEST_P(Exposure, MemoryCanBeExposedBeforeTheConnectionIsThere) {
  auto connecting = fabric->client().connect(listener->address(), {});
  ASSERT_TRUE(connecting.has_value());
  End early;
  early.start(std::move(*connecting));
  const Remote room = expose(early, 0, kSize, RemoteAccess::kWrite);
  EXPECT_EQ(room.size, kSize);
}

TEST_P(Exposure, SendWithInvalidationReportsTheTagAndKillsIt) {
  if (!can_be_invalidated()) GTEST_SKIP() << "the device invalidates no registrations";
  if (!client.queue_pair().capabilities().send_with_invalidate) {
    GTEST_SKIP() << "the back end cannot invalidate";
  }
  const Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  client.fill(0, kSize, 5);
  const Slice from = client.slice(0, kSize);
  ASSERT_TRUE(server.post(3, Receive{}).has_value());
  ASSERT_TRUE(client.post(1, Write{{&from, 1}, room}, false).has_value());
  ASSERT_TRUE(client.post(2, Send{{}, room.tag}, false).has_value());
  const Completion received = next(server);
  EXPECT_EQ(received.status, Status::kOk);
  EXPECT_EQ(received.tag, room.tag);
  EXPECT_EQ(copy_of(server.memory(0, kSize)), copy_of(client.memory(0, kSize)));
  expect_write_refused(room);
}

TEST_P(Exposure, RevokingATagThatThePeerHasInvalidatedSucceeds) {
  if (!can_be_invalidated()) GTEST_SKIP() << "the device invalidates no registrations";
  if (!client.queue_pair().capabilities().send_with_invalidate) {
    GTEST_SKIP() << "the back end cannot invalidate";
  }
  const Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  ASSERT_TRUE(server.post(3, Receive{}).has_value());
  ASSERT_TRUE(client.post(2, Send{{}, room.tag}, false).has_value());
  EXPECT_EQ(next(server).status, Status::kOk);
  revoke(server, room.tag);
  barrier(client, server);
}

TEST_P(Exposure, InvalidatingAnUnknownTagEndsTheConnection) {
  if (!client.queue_pair().capabilities().send_with_invalidate) {
    GTEST_SKIP() << "the back end cannot invalidate";
  }
  ASSERT_TRUE(server.post(3, Receive{}).has_value());
  ASSERT_TRUE(client.post(2, Send{{}, SteeringTag{0x12345678}}, false).has_value());
  EXPECT_NE(next(server).status, Status::kOk);
  expect_disconnected(client, server);
}

TEST_P(Exposure, InvalidatingATagOfAnotherConnectionEndsOnlyTheOwn) {
  if (!fabric->knows_whose_tag_it_is()) {
    GTEST_SKIP() << "rxe does not ask whose window it is";
  }
  if (!client.queue_pair().capabilities().send_with_invalidate) {
    GTEST_SKIP() << "the back end cannot invalidate";
  }
  End client2;
  End server2;
  connect(client2, server2);
  const Remote room = expose(server2, 0, kSize, RemoteAccess::kWrite);
  barrier(server2, client2);
  ASSERT_TRUE(server.post(3, Receive{}).has_value());
  ASSERT_TRUE(client.post(2, Send{{}, room.tag}, false).has_value());
  expect_disconnected(client, server);
  const Slice from = client2.slice(0, kSize);
  ASSERT_TRUE(client2.post(1, Write{{&from, 1}, room}).has_value());
  EXPECT_EQ(next(client2).status, Status::kOk) << "the tag is still alive";
}

TEST_P(Exposure, MemoryCanBeDetachedAfterItsTagIsRevoked) {
  std::vector<std::byte> more(4096);
  const auto region = server.queue_pair().attach(more);
  ASSERT_TRUE(region.has_value());
  ASSERT_TRUE(server.post(5, Expose{{*region, 100, 0}, RemoteAccess::kWrite}).has_value());
  const Completion exposed = next(server);
  ASSERT_EQ(exposed.status, Status::kOk);
  revoke(server, exposed.tag.value());
  server.queue_pair().detach(*region);
  EXPECT_FALSE(server.post(6, Expose{{*region, 100, 0}, RemoteAccess::kWrite}).has_value());
}

TEST_P(Exposure, ConstantMemoryCanBeSentAndReadButNotReceivedIntoOrWritten) {
  const std::vector<std::byte> constant(kSize, std::byte{0x42});
  const auto region = server.queue_pair().attach_read_only(constant);
  ASSERT_TRUE(region.has_value());
  const Slice slice{*region, kSize, 0};
  EXPECT_FALSE(server.post(1, Receive{{&slice, 1}}).has_value());
  EXPECT_FALSE(server.post(2, Expose{slice, RemoteAccess::kWrite}).has_value());
  ASSERT_TRUE(server.post(3, Expose{slice, RemoteAccess::kRead}).has_value());
  const Completion exposed = next(server);
  barrier(server, client);
  const Remote source{exposed.tag.value(), kSize, exposed.address};
  ASSERT_TRUE(client.post(4, Read{client.slice(0, kSize), source}).has_value());
  EXPECT_EQ(next(client).status, Status::kOk);
  EXPECT_EQ(copy_of(client.memory(0, kSize)), constant);
}

TEST_P(Exposure, WorkOutsideOfItsRegionIsNotTaken) {
  const Slice outside = server.slice(kMemorySize - 1, 2);
  const Slice wrapping = server.slice(std::numeric_limits<std::uint64_t>::max(), 2);
  for (const Slice& slice : {outside, wrapping}) {
    EXPECT_FALSE(server.post(1, Receive{{&slice, 1}}).has_value());
    EXPECT_FALSE(server.post(2, Send{{&slice, 1}, {}}).has_value());
    EXPECT_FALSE(server.post(3, Expose{slice, RemoteAccess::kRead}).has_value());
  }
}

// Each exposure is revoked, so that a table of slots would be used again and again.
TEST_P(Exposure, ThousandTagsAreAllDifferentAndDoNotCount) {
  if (!fabric->chooses_tags()) GTEST_SKIP() << "the device chooses tags and addresses";
  std::set<SteeringTag> tags;
  std::set<std::uint64_t> addresses;
  std::map<std::uint32_t, int> differences;
  std::uint32_t previous = 0;
  for (int i = 0; i < 1000; ++i) {
    const Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
    tags.insert(room.tag);
    addresses.insert(room.address);
    ++differences[static_cast<std::uint32_t>(room.tag) - previous];
    previous = static_cast<std::uint32_t>(room.tag);
    revoke(server, room.tag);
    EXPECT_NE(room.address, reinterpret_cast<std::uintptr_t>(server.memory(0, 1).data()));
  }
  // Two of a thousand random numbers of 32 bits are alike once in 8,600 runs, and six never.
  EXPECT_GE(tags.size(), 998U);
  EXPECT_GT(addresses.size(), 990U) << "addresses are random as well";
  const auto most = std::ranges::max_element(
      differences, {}, [](const auto& difference) { return difference.second; });
  EXPECT_LT(most->second, 20) << "the step from tag to tag is often " << most->first;
}

// As a client does call for call: each exposure ends, by the peer's hand or by the own one.
TEST_P(Exposure, MemoryIsExposedAgainAndAgain) {
  for (std::uint32_t i = 0; i < 60; ++i) {
    const Remote room = expose(server, 100, kSize, RemoteAccess::kWrite);
    client.fill(0, kSize, i);
    const Slice from = client.slice(0, kSize);
    ASSERT_TRUE(server.post(1, Receive{}).has_value());
    ASSERT_TRUE(client.post(2, Write{{&from, 1}, room}, false).has_value());
    const bool by_the_peer = can_be_invalidated() && i % 3 != 0;
    const auto invalidated = by_the_peer ? std::optional(room.tag) : std::nullopt;
    ASSERT_TRUE(client.post(3, Send{{}, invalidated}, false).has_value());
    const Completion received = next(server);
    ASSERT_EQ(received.status, Status::kOk) << i;
    EXPECT_EQ(received.tag, invalidated);
    ASSERT_EQ(copy_of(server.memory(100, kSize)), copy_of(client.memory(0, kSize))) << i;
    if (!by_the_peer) revoke(server, room.tag);
  }
}

TEST_P(Exposure, ATagThatIsRevokedAtOnceWasNeverGood) {
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(server.post(1, Expose{server.slice(0, kSize), RemoteAccess::kWrite}).has_value());
    const Completion exposed = next(server);
    ASSERT_EQ(exposed.status, Status::kOk);
    revoke(server, exposed.tag.value());
  }
  const Remote room = expose(server, 0, kSize, RemoteAccess::kWrite);
  const Slice from = client.slice(0, kSize);
  client.fill(0, kSize, 9);
  ASSERT_TRUE(client.post(1, Write{{&from, 1}, room}, false).has_value());
  barrier(client, server);
  EXPECT_EQ(copy_of(server.memory(0, kSize)), copy_of(client.memory(0, kSize)));
}

TEST_P(Exposure, LiveTagsAreAllDifferentAndEachNamesItsOwnMemory) {
  constexpr std::uint32_t kCount = 64;
  std::vector<Remote> rooms;
  std::set<SteeringTag> tags;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    rooms.push_back(expose(server, i * 100, 4, RemoteAccess::kWrite));
    tags.insert(rooms.back().tag);
  }
  EXPECT_EQ(tags.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    client.fill(i * 4, 4, i);
    const Slice from = client.slice(i * 4, 4);
    ASSERT_TRUE(client.post(i, Write{{&from, 1}, rooms[i]}, false).has_value());
  }
  barrier(client, server);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(copy_of(server.memory(i * 100, 4)), copy_of(client.memory(i * 4, 4)));
  }
}

}  // namespace
}  // namespace rpcrdma::test
