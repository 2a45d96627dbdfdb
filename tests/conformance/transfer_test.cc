// Tests how data moves: Sends, Writes and Reads that are in order.
#include <algorithm>
#include <cstring>

#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::Status;
using work::Read;
using work::Receive;
using work::Remote;
using work::RemoteAccess;
using work::Send;
using work::Slice;
using work::Write;

class Transfer : public ProviderTest {
 protected:
  void SetUp() override {
    ProviderTest::SetUp();
    connect(client, server);
  }
};
INSTANTIATE_TEST_SUITE_P(Provider, Transfer, testing::ValuesIn(fabrics()), fabric_name);

// `size` bytes from `offset` on, cut into `count` runs that are apart from each other.
std::vector<Slice> cut(const End& end, std::uint64_t offset, std::uint32_t size,
                       std::uint32_t count) {
  std::vector<Slice> slices;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t part = size / count + (i < size % count ? 1 : 0);
    slices.push_back(end.slice(offset, part));
    offset += part + 16;
  }
  return slices;
}

std::vector<std::byte> content(End& end, const std::vector<Slice>& slices) {
  std::vector<std::byte> out;
  for (const Slice& slice : slices) {
    const auto run = end.memory(slice.offset, slice.size);
    out.insert(out.end(), run.begin(), run.end());
  }
  return out;
}

TEST_P(Transfer, SendOfAnySizeFromSlicesIntoSlicesArrivesWhole) {
  for (const std::uint32_t size : {0U, 1U, 3U, 4U, 63U, 1447U, 1448U, 4096U, 65519U, 200'000U}) {
    for (const std::uint32_t count : {1U, 3U, 4U}) {
      const auto from = cut(client, 0, size, count);
      const auto into = cut(server, 0, size, 5 - count);
      client.fill(0, size + 64, size + count);
      ASSERT_TRUE(server.post(1, Receive{into}).has_value());
      ASSERT_TRUE(client.post(2, Send{from, {}}).has_value());
      const rdma::Completion received = next(server);
      EXPECT_EQ(received.status, Status::kOk);
      EXPECT_EQ(received.size, size);
      EXPECT_EQ(received.tag, std::nullopt);
      EXPECT_EQ(next(client).id, 2U);
      ASSERT_EQ(content(server, into), content(client, from)) << size << " in " << count;
    }
  }
}

TEST_P(Transfer, SmallMessageInALargeReceiveTellsItsOwnSize) {
  const Slice into = server.slice(0, 4096);
  const Slice from = client.slice(0, 5);
  client.fill(0, 5, 1);
  ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
  ASSERT_TRUE(client.post(2, Send{{&from, 1}, {}}).has_value());
  EXPECT_EQ(next(server).size, 5U);
  EXPECT_EQ(copy_of(server.memory(0, 5)), copy_of(client.memory(0, 5)));
}

TEST_P(Transfer, AsManySlicesAsCapabilitiesAllowWork) {
  const std::uint32_t count = client.queue_pair().capabilities().sge_max;
  const auto from = cut(client, 0, 1000, count);
  const auto into = cut(server, 0, 1000, server.queue_pair().capabilities().sge_max);
  client.fill(0, 3000, 1);
  ASSERT_TRUE(server.post(1, Receive{into}).has_value());
  ASSERT_TRUE(client.post(2, Send{from, {}}).has_value());
  EXPECT_EQ(next(server).size, 1000U);
  EXPECT_EQ(content(server, into), content(client, from));
}

TEST_P(Transfer, ManySendsBackToBackKeepTheirOrderInBothDirections) {
  constexpr std::uint32_t kCount = 200;
  for (End* end : {&client, &server}) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const Slice into = end->slice(100'000 + 8 * i, 8);
      ASSERT_TRUE(end->post(i, Receive{{&into, 1}}).has_value());
      std::memcpy(end->memory(8 * i, 4).data(), &i, 4);
    }
  }
  for (std::uint32_t i = 0; i < kCount; ++i) {
    for (End* end : {&client, &server}) {
      const Slice from = end->slice(8 * i, 8);
      ASSERT_TRUE(end->post(1000 + i, Send{{&from, 1}, {}}).has_value());
    }
  }
  for (End* end : {&client, &server}) {
    std::uint64_t next_receive = 0;
    std::uint64_t next_send = 1000;
    for (const rdma::Completion& completion : next(*end, 2 * kCount)) {
      EXPECT_EQ(completion.status, Status::kOk);
      EXPECT_EQ(completion.id, completion.id < 1000 ? next_receive++ : next_send++);
    }
    for (std::uint32_t i = 0; i < kCount; ++i) {
      std::uint32_t value = 0;
      std::memcpy(&value, end->memory(100'000 + 8 * i, 4).data(), 4);
      ASSERT_EQ(value, i);
    }
  }
}

TEST_P(Transfer, ABatchIsTakenInItsOrder) {
  const Slice into = server.slice(0, 8);
  const Remote room = expose(server, 1000, 8, RemoteAccess::kWrite);
  ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
  client.fill(0, 16, 3);
  const Slice first = client.slice(0, 8);
  const Slice second = client.slice(8, 8);
  std::array<work::Request, 2> batch{work::Request{1, false, Write{{&first, 1}, room}},
                                     work::Request{2, true, Send{{&second, 1}, {}}}};
  ASSERT_TRUE(client.queue_pair().post(batch).has_value());
  EXPECT_EQ(next(server).status, Status::kOk);
  EXPECT_EQ(copy_of(server.memory(1000, 8)), copy_of(client.memory(0, 8)));
  EXPECT_EQ(copy_of(server.memory(0, 8)), copy_of(client.memory(8, 8)));
  EXPECT_EQ(next(client).id, 2U);
}

TEST_P(Transfer, ACopiedSendIsDoneAtOnceAndNothingMoreIsHeardOfIt) {
  constexpr std::uint64_t kCount = 16;
  const auto content_of = [&](std::uint64_t i) {
    client.fill(0, 100, static_cast<unsigned>(i));
    return copy_of(client.memory(0, 100));
  };
  std::array<Slice, kCount> into;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    into[i] = server.slice(1000 * i, 100);
    ASSERT_TRUE(server.post(i, Receive{{&into[i], 1}}).has_value());
  }
  const Slice parts[] = {client.slice(0, 28), client.slice(28, 72)};
  std::uint64_t copied = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    (void)content_of(i);
    work::Request request{i, true, Send{parts, {}}};
    request.may_copy = true;
    ASSERT_TRUE(client.queue_pair().post({&request, 1}).has_value());
    if (request.copied) {
      ++copied;
      client.fill(0, 100, 99);  // the memory is free
    } else {
      EXPECT_EQ(next(client).id, i);
    }
  }
  if (fabric->copies_sends()) {
    EXPECT_GT(copied, 0U);
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(next(server).id, i);
    EXPECT_EQ(copy_of(server.memory(1000 * i, 100)), content_of(i)) << i;
  }
  EXPECT_FALSE(client.poll());
}

TEST_P(Transfer, ASendIsNotCopiedUnlessItMayBe) {
  const Slice into = server.slice(0, 100);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(server.post(i, Receive{{&into, 1}}).has_value());
    const Slice from = client.slice(0, 100);
    work::Request request{i, true, Send{{&from, 1}, {}}};
    ASSERT_TRUE(client.queue_pair().post({&request, 1}).has_value());
    EXPECT_FALSE(request.copied);
    EXPECT_EQ(next(client).id, i);
  }
}

TEST_P(Transfer, ReceivesByNumberAreReceives) {
  client.fill(0, 100, 5);
  const rdma::ReceiveBuffers buffers{server.slice(0, 0).region, 100, 300};
  const std::uint16_t numbers[] = {7, 0, 3};
  ASSERT_TRUE(server.queue_pair().post_receives(buffers, numbers).has_value());
  const Slice from = client.slice(0, 100);
  for (const std::uint16_t number : numbers) {
    ASSERT_TRUE(client.post(1, Send{{&from, 1}, {}}, false).has_value());
    const rdma::Completion done = next(server);
    EXPECT_EQ(done.id, number);
    EXPECT_EQ(done.size, 100U);
    EXPECT_EQ(copy_of(server.memory(300U * number, 100)), copy_of(client.memory(0, 100)));
  }
}

TEST_P(Transfer, WritesOfAnySizeAreVisibleWhenTheSendBehindThemIs) {
  for (const std::uint32_t size : {1U, 3U, 1449U, 65'521U, 1'048'576U}) {
    const Remote room = expose(server, 0, size + 2, RemoteAccess::kWrite);
    client.fill(0, size + 100, size);
    const auto from = cut(client, 0, size, size < 4 ? 1 : 4);
    ASSERT_TRUE(client.post(1, Write{from, {room.tag, size, room.address + 1}}).has_value());
    barrier(client, server);
    ASSERT_EQ(copy_of(server.memory(1, size)), content(client, from)) << size;
    EXPECT_EQ(next(client).status, Status::kOk);
    revoke(server, room.tag);
  }
}

TEST_P(Transfer, AcceptedSideWritesToTheInitiatorAsWell) {
  const Remote room = expose(client, 0, 5000, RemoteAccess::kWrite);
  server.fill(0, 5000, 9);
  const Slice from = server.slice(0, 5000);
  ASSERT_TRUE(server.post(1, Write{{&from, 1}, room}).has_value());
  barrier(server, client);
  EXPECT_EQ(copy_of(client.memory(0, 5000)), copy_of(server.memory(0, 5000)));
}

TEST_P(Transfer, TheLaterOfTwoWritesToOnePlaceWins) {
  const Remote room = expose(server, 0, 100, RemoteAccess::kWrite);
  client.fill(0, 100, 1);
  client.fill(200, 100, 2);
  const Slice first = client.slice(0, 100);
  const Slice second = client.slice(200, 100);
  ASSERT_TRUE(client.post(1, Write{{&first, 1}, room}, false).has_value());
  ASSERT_TRUE(client.post(2, Write{{&second, 1}, room}, false).has_value());
  barrier(client, server);
  EXPECT_EQ(copy_of(server.memory(0, 100)), copy_of(client.memory(200, 100)));
}

TEST_P(Transfer, ReadsOfAnySizeBringTheBytes) {
  for (const std::uint32_t size : {1U, 2U, 1448U, 4097U, 65'536U, 1'048'576U}) {
    client.fill(0, size + 8, size);
    const Remote source = expose(client, 0, size + 8, RemoteAccess::kRead);
    ASSERT_TRUE(server.post(7, Read{server.slice(4, size), {source.tag, size, source.address + 8}})
                    .has_value());
    const rdma::Completion done = next(server);
    EXPECT_EQ(done.id, 7U);
    EXPECT_EQ(done.status, Status::kOk);
    ASSERT_EQ(copy_of(server.memory(4, size)), copy_of(client.memory(8, size))) << size;
    revoke(client, source.tag);
  }
}

// The end of a Long Call is such a segment. Linux' siw answers these Reads wrongly by itself
// (docs/interop.md), and CRC covers the wrong bytes.
TEST_P(Transfer, ReadsOfAFewBytesFromTwoPagesBringTheBytes) {
  constexpr std::uint64_t kPage = 4096;
  const auto base = reinterpret_cast<std::uintptr_t>(client.memory(0, 1).data());
  const std::uint64_t boundary = kPage + (kPage - base % kPage) % kPage;  // offset of a page
  for (const std::uint32_t size : {2U, 3U, 4U, 5U, 7U, 8U, 16U, 28U, 31U, 32U, 33U}) {
    for (std::uint32_t before = 0; before <= size; ++before) {
      const std::uint64_t from = boundary - before;
      client.fill(boundary - 64, 128, size + before);
      std::ranges::fill(server.memory(0, 64), std::byte{0xee});
      const Remote source = expose(client, from, size, RemoteAccess::kRead);
      const Read read{server.slice(8, size), {source.tag, size, source.address}};
      ASSERT_TRUE(server.post(7, read).has_value());
      ASSERT_EQ(next(server).status, Status::kOk);
      ASSERT_EQ(copy_of(server.memory(8, size)), copy_of(client.memory(from, size)))
          << size << " bytes, " << before << " of them in the first page";
      ASSERT_EQ(server.memory(8 + size, 1)[0], std::byte{0xee});
      revoke(client, source.tag);
    }
  }
}

TEST_P(Transfer, AsManyReadsAsCapabilitiesAllowAreInFlightAndCompleteInOrder) {
  const std::uint32_t count = server.queue_pair().capabilities().reads_in_flight_max;
  constexpr std::uint32_t kPartSize = 3000;
  client.fill(0, count * kPartSize, 5);
  const Remote source = expose(client, 0, count * kPartSize, RemoteAccess::kRead);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Remote part{source.tag, kPartSize, source.address + i * kPartSize};
    ASSERT_TRUE(server.post(i, Read{server.slice(i * kPartSize, kPartSize), part}).has_value());
  }
  std::uint64_t expected = 0;
  for (const rdma::Completion& done : next(server, count)) {
    EXPECT_EQ(done.id, expected++);
    EXPECT_EQ(done.status, Status::kOk);
  }
  EXPECT_EQ(copy_of(server.memory(0, count * kPartSize)),
            copy_of(client.memory(0, count * kPartSize)));
}

TEST_P(Transfer, OneReadTooManyIsRefusedOrServedButBreaksNothing) {
  const std::uint32_t limit = server.queue_pair().capabilities().reads_in_flight_max;
  client.fill(0, 100, 5);
  const Remote source = expose(client, 0, 100, RemoteAccess::kRead);
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i <= limit; ++i) {
    const auto posted = server.post(i, Read{server.slice(200 * i, 100), source});
    if (posted.has_value()) {
      ++taken;
    } else {
      EXPECT_EQ(i, limit);
      EXPECT_EQ(posted.error().code, rdma::Errc::kNoResources);
    }
  }
  for (const rdma::Completion& done : next(server, taken)) EXPECT_EQ(done.status, Status::kOk);
  ASSERT_TRUE(server.post(99, Read{server.slice(0, 100), source}).has_value());
  EXPECT_EQ(next(server).id, 99U);
}

TEST_P(Transfer, ReadSeesTheWriteThatWasPostedBeforeIt) {
  const Remote room = expose(client, 0, 64, RemoteAccess::kWrite);
  const Remote same = expose(client, 0, 64, RemoteAccess::kRead);
  server.fill(0, 64, 8);
  const Slice from = server.slice(0, 64);
  ASSERT_TRUE(server.post(1, Write{{&from, 1}, room}, false).has_value());
  ASSERT_TRUE(server.post(2, Read{server.slice(1000, 64), same}).has_value());
  EXPECT_EQ(next(server).status, Status::kOk);
  EXPECT_EQ(copy_of(server.memory(1000, 64)), copy_of(server.memory(0, 64)));
}

TEST_P(Transfer, WriteAndReadOfNoBytesSucceed) {
  const Remote room = expose(server, 0, 16, RemoteAccess::kWrite);
  const Remote source = expose(server, 100, 16, RemoteAccess::kRead);
  ASSERT_TRUE(client.post(1, Write{{}, {room.tag, 0, room.address}}).has_value());
  EXPECT_EQ(next(client).status, Status::kOk);
  ASSERT_TRUE(
      client.post(2, Read{client.slice(0, 0), {source.tag, 0, source.address}}).has_value());
  EXPECT_EQ(next(client).status, Status::kOk);
  barrier(client, server);
}

TEST_P(Transfer, TrafficOfAllKindsInBothDirectionsKeepsItsBytes) {
  constexpr std::uint32_t kRounds = 40;
  constexpr std::uint32_t kPartSize = 10'000;
  for (End* end : {&client, &server}) end->fill(0, kPartSize, end == &client ? 1 : 2);
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    for (auto [from, to] : {std::pair{&client, &server}, std::pair{&server, &client}}) {
      const Remote room = expose(*to, 500'000, kPartSize, RemoteAccess::kWrite);
      const Remote source = expose(*to, 0, kPartSize, RemoteAccess::kRead);
      const Slice data = from->slice(0, kPartSize);
      ASSERT_TRUE(from->post(1, Write{{&data, 1}, room}, false).has_value());
      ASSERT_TRUE(from->post(2, Read{from->slice(900'000, kPartSize), source}).has_value());
      EXPECT_EQ(next(*from).id, 2U);
      barrier(*from, *to);
      ASSERT_EQ(copy_of(to->memory(500'000, kPartSize)), copy_of(from->memory(0, kPartSize)));
      ASSERT_EQ(copy_of(from->memory(900'000, kPartSize)), copy_of(to->memory(0, kPartSize)));
      revoke(*to, room.tag);
      revoke(*to, source.tag);
    }
  }
}

TEST_P(Transfer, UnsignaledWorkThatSucceedsDoesNotComplete) {
  const Remote room = expose(server, 0, 8, RemoteAccess::kWrite);
  const Remote source = expose(server, 8, 8, RemoteAccess::kRead);
  const Slice from = client.slice(0, 8);
  ASSERT_TRUE(client.post(1, Write{{&from, 1}, room}, false).has_value());
  ASSERT_TRUE(client.post(2, Read{client.slice(8, 8), source}, false).has_value());
  ASSERT_TRUE(server.post(3, Receive{}).has_value());
  ASSERT_TRUE(client.post(4, Send{}, false).has_value());
  EXPECT_EQ(next(server).id, 3U);
  ASSERT_TRUE(pump_until([&] {
    return client.post(5, Read{client.slice(16, 8), source}).has_value();
  }));
  EXPECT_EQ(next(client).id, 5U) << "the first completion is that of the signaled work";
  ASSERT_TRUE(server.post(6, Receive{}).has_value());
  ASSERT_TRUE(client.post(7, Send{}).has_value());
  EXPECT_EQ(next(client).id, 7U);
}

TEST_P(Transfer, CompletionOfASendSaysThatEarlierWritesAreCompleteToo) {
  const Remote room = expose(server, 0, 8, RemoteAccess::kWrite);
  const Slice from = client.slice(0, 8);
  ASSERT_TRUE(server.post(1, Receive{}).has_value());
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(client.post(10 + i, Write{{&from, 1}, room}, i == 2).has_value());
  }
  ASSERT_TRUE(client.post(20, Send{}).has_value());
  EXPECT_EQ(next(client).id, 12U);
  EXPECT_EQ(next(client).id, 20U);
}

TEST_P(Transfer, FullQueueOfOtherWorkLeavesReceivesTheirRoom) {
  const std::uint32_t depth = client.queue_pair().capabilities().queue_depth_max;
  const Remote room = expose(server, 0, 8, RemoteAccess::kWrite);
  const Slice from = client.slice(0, 8);
  bool is_full = false;
  for (std::uint32_t i = 0; i < 2 * depth && !is_full; ++i) {
    is_full = !client.post(1, Write{{&from, 1}, room}, false).has_value();
  }
  EXPECT_TRUE(client.post(2, Receive{}).has_value());
}

TEST_P(Transfer, SlotsOfFinishedWorkAreUsedAgain) {
  const std::uint32_t depth = client.queue_pair().capabilities().queue_depth_max;
  const Remote room = expose(server, 0, 8, RemoteAccess::kWrite);
  const Slice from = client.slice(0, 8);
  for (std::uint32_t i = 0; i < 2 * depth + 10; ++i) {
    ASSERT_TRUE(pump_until([&] {
      return client.post(1, Write{{&from, 1}, room}, false).has_value();
    })) << "the queue stays full after "
        << i;
  }
  EXPECT_EQ(client.poll(), std::nullopt);
  EXPECT_EQ(client.queue_pair().poll_link(), std::nullopt);
}

}  // namespace
}  // namespace rpcrdma::test
