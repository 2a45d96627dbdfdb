// Headers of captured packets, among them those that lie about their sizes.
#include "explain/packet.h"

#include <gtest/gtest.h>

#include <vector>

#include "explain/roce.h"

namespace rpcrdma::explain {
namespace {

using Buffer = std::vector<std::byte>;

Buffer from(std::initializer_list<int> values) {
  Buffer out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

// IPv4 with TCP from port 1 to port 2, and three bytes of payload.
Buffer ipv4() {
  return from({0x45, 0,   0,  43, 0, 0, 0, 0, 64, 6, 0, 0, 10,   0,    0, 1, 10, 0, 0, 2,  //
               0,    1,   0,  2,  0, 0, 0, 7, 0,  0, 0, 9, 0x50, 0x18, 0, 0, 0,  0, 0, 0,  //
               'a',  'b', 'c'});
}

Segment parse(const Buffer& data, LinkType link = LinkType::kRaw) {
  return parse_packet({{1, 0}, link, data, static_cast<std::uint32_t>(data.size())});
}

TEST(PacketHeaders, GiveTheSegmentOfTcp) {
  const Buffer data = ipv4();
  const Segment segment = parse(data);
  EXPECT_EQ(segment.protocol, Protocol::kTcp);
  EXPECT_EQ(to_string(segment.from), "10.0.0.1:1");
  EXPECT_EQ(to_string(segment.to), "10.0.0.2:2");
  EXPECT_EQ(segment.sequence, 7U);
  EXPECT_EQ(segment.acknowledged, 9U);
  EXPECT_TRUE(segment.flags.ack && !segment.flags.syn);
  EXPECT_EQ(segment.size, 3U);
  EXPECT_EQ(segment.payload.size(), 3U);
}

TEST(PacketHeaders, CountBytesThatWereNotCaptured) {
  Buffer data = ipv4();
  data.resize(41);
  const Segment segment = parse(data);
  EXPECT_EQ(segment.size, 3U);
  EXPECT_EQ(segment.payload.size(), 1U);
}

TEST(PacketHeaders, LeaveOutTheFillBytesOfEthernet) {
  Buffer frame(14);
  frame[12] = std::byte{8};
  const Buffer data = ipv4();
  frame.insert(frame.end(), data.begin(), data.end());
  frame.resize(64);
  EXPECT_EQ(parse(frame, LinkType::kEthernet).payload.size(), 3U);
}

TEST(PacketHeaders, TakeTheSizeOfThePacketWhereIpSaysZero) {
  Buffer data = ipv4();
  data[2] = data[3] = std::byte{0};
  EXPECT_EQ(parse(data).size, 3U);
}

TEST(PacketHeaders, CallFragmentsFragments) {
  Buffer data = ipv4();
  data[6] = std::byte{0x20};
  EXPECT_EQ(parse(data).protocol, Protocol::kFragment);
}

TEST(PacketHeaders, AreRefusedAtAnyCutAndWithAnyLength) {
  const Buffer data = ipv4();
  for (std::size_t size = 0; size < 40; ++size) {
    const Buffer cut(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(parse(cut).protocol, Protocol::kNone) << size;
  }
  for (int value = 0; value < 256; ++value) {
    for (const std::size_t at : {0U, 2U, 3U, 9U, 32U}) {
      Buffer changed = data;
      changed[at] = static_cast<std::byte>(value);
      const Segment segment = parse(changed);
      EXPECT_LE(segment.payload.size(), segment.size);
    }
  }
}

TEST(RocePackets, AreRefusedAtAnyCut) {
  Buffer payload(12 + 16 + 4 + 8);
  payload[0] = std::byte{10};  // RDMA Write Only
  for (std::size_t size = 0; size <= payload.size(); ++size) {
    Segment segment;
    segment.payload = Bytes(payload).first(size);
    segment.size = static_cast<std::uint32_t>(payload.size());
    const auto packet = parse_roce(segment);
    EXPECT_EQ(packet.has_value(), size >= 28) << size;
    if (packet) {
      EXPECT_LE(packet->payload.size(), packet->size);
    }
  }
}

}  // namespace
}  // namespace rpcrdma::explain
