// The counters of a connection say what was moved: each side's own Sends, Writes and Reads, and the
// payload of both ways.
#include <array>
#include <string_view>

#include "conformance/fixture.h"

namespace rpcrdma::test {
namespace {

using rdma::Counters;
using rdma::Status;
using work::Read;
using work::Receive;
using work::RemoteAccess;
using work::Send;
using work::Slice;
using work::Write;

// Counts the transfers of one side between two looks at its counters.
struct Moved {
  std::uint64_t sends = 0, writes = 0, reads = 0, sent = 0, received = 0;
  bool operator==(const Moved&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Moved& moved) {
  return out << moved.sends << " Sends, " << moved.writes << " Writes, " << moved.reads
             << " Reads, payload of " << moved.sent << " bytes sent and " << moved.received
             << " received";
}
Moved difference(const Counters& before, const Counters& after) {
  return {after.sends - before.sends, after.writes - before.writes, after.reads - before.reads,
          after.payload_sent - before.payload_sent,
          after.payload_received - before.payload_received};
}

class CountersOfAConnection : public ProviderTest {
 protected:
  void SetUp() override {
    ProviderTest::SetUp();
    connect(client, server);
    look();
  }
  void look() { before_ = {client.queue_pair().counters(), server.queue_pair().counters()}; }
  // Looks once more, and compares.
  void expect_moved(const Moved& by_client, const Moved& by_server) {
    EXPECT_EQ(difference(before_[0], client.queue_pair().counters()), by_client);
    EXPECT_EQ(difference(before_[1], server.queue_pair().counters()), by_server);
  }
  // Compares what one side has sent since the last look with what has come to the other: the
  // payload, and little more.
  void expect_wire_bytes(End& from, End& to, std::uint64_t payload) {
    const auto since = [&](End& end) -> const Counters& {
      return before_[&end == &client ? 0 : 1];
    };
    const std::uint64_t sent = from.queue_pair().counters().bytes_sent - since(from).bytes_sent;
    EXPECT_EQ(sent, to.queue_pair().counters().bytes_received - since(to).bytes_received);
    if (!fabric->counts_wire_bytes()) {
      EXPECT_EQ(sent, 0U);
    } else {
      EXPECT_GE(sent, payload);
      EXPECT_LE(sent, payload * 5 / 4 + 64);
    }
  }
  std::array<Counters, 2> before_;
};
INSTANTIATE_TEST_SUITE_P(Provider, CountersOfAConnection, testing::ValuesIn(fabrics()),
                         fabric_name);

TEST_P(CountersOfAConnection, CountASendOnceAndItsBytesOnBothSides) {
  constexpr std::array<std::uint32_t, 3> kSizes = {100, 5000, 70'001};
  std::uint64_t bytes = 0;
  for (const std::uint32_t size : kSizes) {
    const Slice from = client.slice(0, size);
    const Slice into = server.slice(0, size);
    ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
    ASSERT_TRUE(client.post(2, Send{{&from, 1}, {}}).has_value());
    ASSERT_EQ(next(server).status, Status::kOk);
    ASSERT_EQ(next(client).status, Status::kOk);
    bytes += size;
  }
  expect_moved({.sends = kSizes.size(), .sent = bytes}, {.received = bytes});
}

TEST_P(CountersOfAConnection, CountTheMessagesOfBothDirectionsApart) {
  for (End* end : {&client, &server}) {
    const Slice into = end->slice(0, 1000);
    ASSERT_TRUE(end->post(1, Receive{{&into, 1}}).has_value());
  }
  const Slice call = client.slice(1000, 300);
  const Slice reply = server.slice(1000, 40);
  ASSERT_TRUE(client.post(2, Send{{&call, 1}, {}}).has_value());
  ASSERT_TRUE(server.post(2, Send{{&reply, 1}, {}}).has_value());
  next(client, 2);
  next(server, 2);
  expect_moved({.sends = 1, .sent = 300, .received = 40},
               {.sends = 1, .sent = 40, .received = 300});
}

TEST_P(CountersOfAConnection, CountAWriteWhereItIsPosted) {
  const auto remote = expose(client, 0, 100'000, RemoteAccess::kWrite);
  look();
  const Slice from = server.slice(0, 100'000);
  ASSERT_TRUE(server.post(3, Write{{&from, 1}, remote}).has_value());
  ASSERT_EQ(next(server).status, Status::kOk);
  EXPECT_EQ(difference(before_[1], server.queue_pair().counters()),
            (Moved{.writes = 1, .sent = 100'000}));
  barrier(server, client);
  EXPECT_EQ(difference(before_[0], client.queue_pair().counters()),
            (Moved{.received = fabric->counts_what_the_peer_does() ? 100'000U : 0U}));
}

TEST_P(CountersOfAConnection, CountAReadWhereItIsPostedAndItsBytesAsReceivedThere) {
  const auto remote = expose(client, 0, 100'000, RemoteAccess::kRead);
  look();
  const Slice into = server.slice(0, 100'000);
  ASSERT_TRUE(server.post(3, Read{into, remote}).has_value());
  ASSERT_EQ(next(server).status, Status::kOk);
  EXPECT_EQ(difference(before_[1], server.queue_pair().counters()),
            (Moved{.reads = 1, .received = 100'000}));
  const Moved at_client = difference(before_[0], client.queue_pair().counters());
  EXPECT_EQ(at_client, (Moved{.sent = fabric->counts_what_the_peer_does() ? 100'000U : 0U}));
}

TEST_P(CountersOfAConnection, CountASendThatIsCopiedLikeAnotherOneAndItsCopy) {
  const Slice into = server.slice(0, 100);
  const Slice from = client.slice(0, 48);
  ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
  work::Request request{2, false, Send{{&from, 1}, {}}};
  request.may_copy = true;
  ASSERT_TRUE(client.queue_pair().post(std::span(&request, 1)).has_value());
  ASSERT_EQ(next(server).size, 48U);
  if (fabric->counts_when_complete()) {
    // The device completes it for sure when it completes what was posted behind it.
    ASSERT_TRUE(server.post_empty_receive().has_value());
    ASSERT_TRUE(client.post(3, Send{}).has_value());
    ASSERT_EQ(next(client).id, 3U);
    ASSERT_EQ(next(server).size, 0U);
    expect_moved({.sends = 2, .sent = 48}, {.received = 48});
  } else {
    expect_moved({.sends = 1, .sent = 48}, {.received = 48});
  }
  // A device may copy more than it has to say: siw does, if the Send is in one piece.
  if (fabric->copies_sends() || fabric->counts_copied_sends()) {
    EXPECT_EQ(request.copied, fabric->copies_sends());
  }
  const Counters sender = client.queue_pair().counters();
  EXPECT_EQ(sender.bytes_copied - before_[0].bytes_copied,
            request.copied && fabric->counts_copied_sends() ? 48U : 0U);
  expect_wire_bytes(client, server, 48);
}

TEST_P(CountersOfAConnection, CountBytesOnTheWireAlikeOnBothSidesAndNoLessThanThePayload) {
  constexpr std::uint32_t kSize = 20'000;
  const Slice here = client.slice(0, kSize);
  const Slice there = server.slice(0, kSize);
  ASSERT_TRUE(server.post(1, Receive{{&there, 1}}).has_value());
  ASSERT_TRUE(client.post(2, Send{{&here, 1}, {}}).has_value());
  ASSERT_EQ(next(server).status, Status::kOk);
  ASSERT_EQ(next(client).status, Status::kOk);
  expect_wire_bytes(client, server, kSize);

  const auto to_write = expose(client, 0, kSize, RemoteAccess::kWrite);
  const auto to_read = expose(client, kSize, kSize, RemoteAccess::kRead);
  look();
  ASSERT_TRUE(server.post(3, Write{{&there, 1}, to_write}).has_value());
  ASSERT_EQ(next(server).status, Status::kOk);
  barrier(server, client);
  expect_wire_bytes(server, client, kSize);

  look();
  ASSERT_TRUE(server.post(4, Read{there, to_read}).has_value());
  ASSERT_EQ(next(server).status, Status::kOk);
  expect_wire_bytes(client, server, kSize);
}

// A device may register memory when it is first used.
TEST_P(CountersOfAConnection, CountEachRegistrationOfMemoryAndForgetTheBytesOfWhatIsDetached) {
  std::vector<std::byte> memory(8192);
  look();
  const auto region = client.queue_pair().attach(memory);
  ASSERT_TRUE(region.has_value());
  const Slice from{*region, 8192, 0};
  const Slice into = server.slice(0, 8192);
  ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
  ASSERT_TRUE(client.post(2, Send{{&from, 1}, {}}).has_value());
  ASSERT_EQ(next(client).status, Status::kOk);
  const Counters attached = client.queue_pair().counters();
  const bool is_device = !fabric->counts_what_the_peer_does();
  const std::vector<std::byte> constant(100);
  const auto readable = client.queue_pair().attach_read_only(constant);
  ASSERT_TRUE(readable.has_value());
  const Counters both = client.queue_pair().counters();
  EXPECT_EQ(both.attached_bytes - attached.attached_bytes, constant.size());
  EXPECT_EQ(both.registrations - attached.registrations, is_device ? 0U : 1U);
  client.queue_pair().detach(*readable);
  EXPECT_EQ(attached.registrations - before_[0].registrations, 1U);
  EXPECT_EQ(attached.attached_bytes - before_[0].attached_bytes, memory.size());
  client.queue_pair().detach(*region);
  const Counters detached = client.queue_pair().counters();
  EXPECT_EQ(detached.registrations, both.registrations);
  EXPECT_EQ(detached.attached_bytes, before_[0].attached_bytes);
}

}  // namespace
}  // namespace rpcrdma::test
