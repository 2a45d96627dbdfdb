// The counters of a stream count what they name, upwards, and nothing else.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::iwarp {
namespace {

using test::Buffer;
using test::completions;
using test::exposed;
using test::exposed_source;
using test::StreamPair;

struct NamedCounter {
  std::string_view name;
  std::uint64_t StreamCounters::*value;
};
constexpr auto kCounters = std::to_array<NamedCounter>({
    {"bytes_sent", &StreamCounters::bytes_sent},
    {"bytes_received", &StreamCounters::bytes_received},
    {"payload_sent", &StreamCounters::payload_sent},
    {"payload_received", &StreamCounters::payload_received},
    {"bytes_copied", &StreamCounters::bytes_copied},
    {"sends", &StreamCounters::sends},
    {"writes", &StreamCounters::writes},
    {"reads", &StreamCounters::reads},
    {"system_calls", &StreamCounters::system_calls},
    {"doorbells", &StreamCounters::doorbells},
    {"completions", &StreamCounters::completions},
    {"registrations", &StreamCounters::registrations},
    {"attached_bytes", &StreamCounters::attached_bytes},
    {"fpdus_sent", &StreamCounters::fpdus_sent},
    {"fpdus_received", &StreamCounters::fpdus_received},
});
static_assert(kCounters.size() * sizeof(std::uint64_t) == sizeof(StreamCounters));

// Returns the counters that are not 0, by their names.
using Counts = std::map<std::string_view, std::uint64_t>;
Counts difference(const StreamCounters& before, const StreamCounters& after) {
  Counts found;
  for (const auto& [name, value] : kCounters) {
    if (after.*value != before.*value) found[name] = after.*value - before.*value;
  }
  return found;
}

// Bytes of an FPDU: the length in front, a header, the payload, padding to four, the CRC
// (RFC 5044 §4).
constexpr std::uint64_t framed(std::uint64_t header, std::uint64_t payload) {
  return (2 + header + payload + 3) / 4 * 4 + 4;
}
constexpr std::uint64_t kUntagged = 18, kTagged = 14;  // headers, RFC 5041 §4

class CountersOfAStream : public testing::Test {
 protected:
  CountersOfAStream() {
    pair.open();
    completions(pair.initiator);
    look();
  }
  void look() { before_ = {pair.initiator.counters(), pair.responder.counters()}; }
  Counts by_initiator() const { return difference(before_[0], pair.initiator.counters()); }
  Counts by_responder() const { return difference(before_[1], pair.responder.counters()); }

  StreamPair pair;
  std::array<StreamCounters, 2> before_;
};

TEST_F(CountersOfAStream, CountAShortSendWithItsFramingAndItsTwoCopies) {
  const Buffer note(101);
  Buffer memory(200);
  ASSERT_TRUE(test::post_receive(pair.responder, 1, memory));
  ASSERT_TRUE(test::post_send(pair.initiator, 2, note));
  pair.run();
  const std::uint64_t wire = framed(kUntagged, 101);
  EXPECT_EQ(by_initiator(), (Counts{{"sends", 1},
                                    {"payload_sent", 101},
                                    {"bytes_copied", 101},
                                    {"fpdus_sent", 1},
                                    {"bytes_sent", wire}}));
  EXPECT_EQ(by_responder(), (Counts{{"payload_received", 101},
                                    {"bytes_copied", 101},
                                    {"fpdus_received", 1},
                                    {"bytes_received", wire}}));
}

TEST_F(CountersOfAStream, CountEachSendOfABatchThatIsCopied) {
  constexpr std::uint64_t kCount = 5, kSize = 40;
  const Buffer note(kSize);
  Buffer memory(kSize * kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const auto room = MutableBytes(memory).subspan(i * kSize, kSize);
    ASSERT_TRUE(test::post_receive(pair.responder, i, room));
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(test::post_send(pair.initiator, 10 + i, note));
  }
  pair.run();
  const std::uint64_t wire = kCount * framed(kUntagged, kSize);
  EXPECT_EQ(by_initiator(), (Counts{{"sends", kCount},
                                    {"payload_sent", kCount * kSize},
                                    {"bytes_copied", kCount * kSize},
                                    {"fpdus_sent", kCount},
                                    {"bytes_sent", wire}}));
  EXPECT_EQ(by_responder(), (Counts{{"payload_received", kCount * kSize},
                                    {"bytes_copied", kCount * kSize},
                                    {"fpdus_received", kCount},
                                    {"bytes_received", wire}}));
}

TEST_F(CountersOfAStream, CountALongWriteOnceAndEachOfItsFpdus) {
  constexpr std::size_t kFpdus = 3;
  Buffer memory(kFpdus * kTaggedPayloadMax);
  const Buffer data(memory.size());
  const auto remote = exposed(pair.responder, memory);
  look();
  ASSERT_TRUE(test::post_write(pair.initiator, 1, data, remote));
  pair.run();
  const std::uint64_t wire = kFpdus * framed(kTagged, kTaggedPayloadMax);
  EXPECT_EQ(by_initiator(), (Counts{{"writes", 1},
                                    {"payload_sent", data.size()},
                                    {"fpdus_sent", kFpdus},
                                    {"bytes_sent", wire}}));
  Counts received = by_responder();
  EXPECT_LE(received["bytes_copied"], data.size());  // as much as came with a header in one piece
  received.erase("bytes_copied");
  EXPECT_EQ(received, (Counts{{"payload_received", data.size()},
                              {"fpdus_received", kFpdus},
                              {"bytes_received", wire}}));
}

TEST_F(CountersOfAStream, CountAShortWriteWithItsTwoCopies) {
  Buffer memory(60);
  const Buffer data(memory.size());
  const auto remote = exposed(pair.responder, memory);
  look();
  ASSERT_TRUE(test::post_write(pair.initiator, 1, data, remote));
  pair.run();
  const std::uint64_t wire = framed(kTagged, data.size());
  EXPECT_EQ(by_initiator(), (Counts{{"writes", 1},
                                    {"payload_sent", data.size()},
                                    {"bytes_copied", data.size()},
                                    {"fpdus_sent", 1},
                                    {"bytes_sent", wire}}));
  EXPECT_EQ(by_responder(), (Counts{{"payload_received", data.size()},
                                    {"bytes_copied", data.size()},
                                    {"fpdus_received", 1},
                                    {"bytes_received", wire}}));
}

TEST_F(CountersOfAStream, CountALongSendOnceAndNoMoreCopiesThanItHasBytes) {
  constexpr std::size_t kSize = 150'000;
  const Buffer data(kSize);
  Buffer memory(kSize);
  ASSERT_TRUE(test::post_receive(pair.responder, 1, memory));
  ASSERT_TRUE(test::post_send(pair.initiator, 2, data));
  pair.run();
  const Counts sent = by_initiator();
  EXPECT_EQ(sent.at("sends"), 1U);
  EXPECT_EQ(sent.at("payload_sent"), kSize);
  const Counts received = by_responder();
  EXPECT_EQ(received.at("payload_received"), kSize);
  EXPECT_EQ(received.at("fpdus_received"), sent.at("fpdus_sent"));
  EXPECT_LE(received.at("bytes_copied"), kSize);
}

// The initiator lets the responder speak by a first FPDU (RFC 5044 §7.1.2): ours is a Write of no
// bytes, that of others may have nothing in it at all.
TEST(CountersOfAStreamThatOpens, CountTheOpenerAsAnFpduWithoutPayload) {
  StreamPair pair;
  pair.open();
  EXPECT_EQ(difference({}, pair.initiator.counters()),
            (Counts{{"fpdus_sent", 1}, {"bytes_sent", framed(kTagged, 0)}}));
  EXPECT_EQ(difference({}, pair.responder.counters()),
            (Counts{{"fpdus_received", 1}, {"bytes_received", framed(kTagged, 0)}}));
}
TEST(CountersOfAStreamThatOpens, CountAnOpenerWithoutContentAsAnFpduToo) {
  StreamPair pair(true, kFpduSizeMax, 4, Rtr::kSend);
  Buffer opener(framed(0, 0));
  test::fix_crc(opener);
  ASSERT_TRUE(test::receive(pair.responder, opener));
  EXPECT_EQ(difference({}, pair.responder.counters()),
            (Counts{{"fpdus_received", 1}, {"bytes_received", opener.size()}}));
}

// The Request's own payload of 28 bytes is none of the upper layer's.
TEST_F(CountersOfAStream, CountAReadWhereItIsPostedAndItsResponseAsPayload) {
  const Buffer source(5000);
  Buffer sink(source.size());
  const auto remote = exposed_source(pair.responder, source);
  look();
  ASSERT_TRUE(pair.initiator.post_read(1, sink, remote));
  pair.run();
  const std::uint64_t request = framed(kUntagged, kReadRequestSize);
  const std::uint64_t response = framed(kTagged, source.size());
  Counts reader = by_initiator();
  reader.erase("bytes_copied");  // depends on how the bytes come
  EXPECT_EQ(reader, (Counts{{"reads", 1},
                            {"payload_received", source.size()},
                            {"fpdus_sent", 1},
                            {"fpdus_received", 1},
                            {"bytes_sent", request},
                            {"bytes_received", response}}));
  EXPECT_EQ(by_responder(), (Counts{{"payload_sent", source.size()},
                                    {"fpdus_sent", 1},
                                    {"fpdus_received", 1},
                                    {"bytes_sent", response},
                                    {"bytes_received", request}}));
}

TEST_F(CountersOfAStream, CountAnFpduThatIsRefusedAsNone) {
  Buffer note = test::fpdu(test::send_header(77), Buffer(20));
  test::receive(pair.responder, note);
  Counts received = by_responder();
  EXPECT_EQ(received["bytes_received"], note.size());
  EXPECT_EQ(received.count("fpdus_received"), 0U);
  EXPECT_EQ(received.count("payload_received"), 0U);
}

}  // namespace
}  // namespace rpcrdma::iwarp
